#!/usr/bin/env bash
# kubernetes-fluent-client: Finalize("remove", …) applies the whole object, so a finalizer that another client has added stays.
#
# Seen with kubernetes-fluent-client 3.11.6, Node.js 20 (2026-11-30):
# `K8s(kind).Finalize("remove", name, object)` reads the object and sends all of it, without the finalizer, as a forced server-side
# apply of its field manager `pepr`. An apply takes from a list only what its own manager had put there, so a finalizer that was
# written by another client is still there afterwards; the call returns without an error, and the object that is being deleted stays.
# By the same request every field of spec and data belongs to `pepr` from then on, which conflicts with the next apply of whoever
# owned it. One would guess a patch of the list.
#
# Needs npm. Exit code 0: behaves as described. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true, "type": "module"}' >package.json
npm install --ignore-scripts --no-audit --no-fund --loglevel=error kubernetes-fluent-client@3.11.6 >/dev/null
cat >run.js <<'JS'
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { K8s, kind } from "kubernetes-fluent-client";

const NAME = "example.dev/of-another-client";
const stored = {
  apiVersion: "v1", kind: "ConfigMap", data: { a: "1" },
  metadata: {
    name: "a", namespace: "default", resourceVersion: "7", finalizers: [NAME],
    managedFields: [{
      manager: "another", operation: "Update", apiVersion: "v1", fieldsType: "FieldsV1",
      fieldsV1: { "f:metadata": { "f:finalizers": { ".": {}, [`v:"${NAME}"`]: {} } }, "f:data": { "f:a": {} } },
    }],
  },
};
const sent = [];
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    if (request.method !== "GET") sent.push([request.method, request.headers["content-type"], request.url, JSON.parse(body)]);
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(stored));
  });
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
process.env.KUBECONFIG = "config";
writeFileSync("config", JSON.stringify({
  apiVersion: "v1", kind: "Config", "current-context": "a",
  contexts: [{ name: "a", context: { cluster: "a", user: "a" } }],
  clusters: [{ name: "a", cluster: { server: `http://127.0.0.1:${server.address().port}`, "insecure-skip-tls-verify": true } }],
  users: [{ name: "a", user: { token: "t" } }],
}));
const returned = await K8s(kind.ConfigMap).InNamespace("default").Finalize("remove", NAME, "a");
console.log(`Node.js ${process.version}, returned ${returned}, sent:`);
console.dir(sent, { depth: 5 });
const [[method, type, url, body]] = sent;
const query = new URL(url, "http://a").searchParams;
const same = sent.length === 1 && method === "PATCH" && type === "application/apply-patch+yaml" && query.get("force") === "true"
  && query.get("fieldManager") === "pepr" && body.data.a === "1" && body.metadata.finalizers.length === 0;
process.exit(same ? 0 : 1);
JS
node run.js
