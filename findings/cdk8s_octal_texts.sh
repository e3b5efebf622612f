#!/usr/bin/env bash
# cdk8s: it writes the text 0o17 so that kubectl reads the number 15.
#
# Seen with cdk8s 2.70.106 beside js-yaml 5.5.0, Node.js 20 (2026-11-30):
# cdk8s writes manifests by the rules of YAML 1.1 and quotes each text that these read as something else: yes, 017, 1_000, 12:30:45.
# `0o17` is an octal number since YAML 1.2 only, so it stands there plain. What reads YAML 1.2 gets the number 15: js-yaml here, and
# kubectl, whose parser knows both versions, so that `data: {mode: "0o17"}` of a ConfigMap in a chart is refused as a number. cdk8s
# itself reads its file back as it was. `dump` of js-yaml quotes the text.
#
# Needs npm. Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true, "type": "module"}' >package.json
npm install --ignore-scripts --no-audit --no-fund --loglevel=error \
    cdk8s@2.70.106 constructs@10.8.1 js-yaml@5.5.0 >/dev/null
cat >run.js <<'JS'
import { writeFileSync } from "node:fs";
import { Yaml } from "cdk8s";
import { dump, load } from "js-yaml";

const texts = ["yes", "017", "1_000", "12:30:45", "0o17"];
const object = Object.fromEntries(texts.map((text, number) => [`t${number}`, text]));
const changed = (yaml) => Object.entries(load(yaml)).filter(([name, read]) => object[name] !== read).map(([, read]) => read);
const written = Yaml.stringify(object);
console.log(`Node.js ${process.version}\n${written}`);
writeFileSync("written.yaml", written);
const [back] = Yaml.load("written.yaml");
const byCdk8s = changed(written), byJsYaml = changed(dump(object));
console.log("texts that are read as something else:", byCdk8s, "of cdk8s,", byJsYaml, "of js-yaml");
console.log("cdk8s reads back:", back.t4);
process.exit(JSON.stringify([byCdk8s, byJsYaml, back.t4]) === '[[15],[],"0o17"]' ? 0 : 1);
JS
node run.js
