// What the drivers in JavaScript share, as driving.py: one request per line of stdin, one line of JSON for each answer.

import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

// How long a watch is followed, and how long anything may take.
export const WATCH_SECONDS = 8;
const SECONDS = 25;
export const LAST = "late";

export class Driver {
  constructor(told) {
    this.namespace = told.namespace;
    this.kubeconfig = told.kubeconfig;
    this.rotation = told.rotation;
  }

  // Rotates the token between two requests of one client, where the thing says so.
  between() {
    if (this.rotation.length) writeFileSync(this.rotation[0], this.rotation[1]);
  }

  configmap(name = "made") {
    return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: this.namespace }, data: { a: "2" } };
  }
}

// Follows a watch until the last object or the time is over: begin(note, fail) starts it, and returns what stops it.
export async function follow(begin) {
  const events = [];
  let stop = () => {};
  const end = await new Promise((resolve) => {
    setTimeout(() => resolve("open"), WATCH_SECONDS * 1000);
    const note = (kind, name) => {
      events.push(`${kind} ${name}`);
      if (name === LAST) resolve("ended");
    };
    begin(note, (error) => resolve(raised(error))).then((stopping) => (stop = stopping), (error) => resolve(raised(error)));
  });
  await stop();
  return { events, end };
}

function raised(error) {
  const code = [error?.code, error?.status, error?.statusCode].find(Number.isInteger) ?? null;
  const message = String(error?.message ?? error?.statusText ?? error).slice(0, 400);
  return { raised: error?.constructor?.name ?? typeof error, code, message };
}

async function answer(make, told) {
  const driver = new make(told);
  if (typeof driver[told.method] !== "function") return { absent: true };
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("nothing within 25 seconds")), SECONDS * 1000);
  });
  try {
    return { value: (await Promise.race([driver[told.method](...told.arguments), late])) ?? null };
  } catch (error) {
    return raised(error);
  } finally {
    clearTimeout(timer);
  }
}

export async function drive(make) {
  const tell = process.stdout.write.bind(process.stdout);
  console.log = console.info = console.error;
  process.on("unhandledRejection", (error) => console.error("unhandled", error));
  tell("ready\n");
  for await (const line of createInterface({ input: process.stdin })) {
    tell(JSON.stringify(await answer(make, JSON.parse(line))) + "\n");
  }
  process.exit(0);
}
