// @kubernetes/client-node, with its informer for what others watch.

import { PassThrough } from "node:stream";
import * as k8s from "@kubernetes/client-node";
import { Driver, drive, follow } from "./driving.mjs";

const KINDS = {
  Deployment: [k8s.AppsV1Api, "NamespacedDeployment"],
  NetworkPolicy: [k8s.NetworkingV1Api, "NamespacedNetworkPolicy"],
  Service: [k8s.CoreV1Api, "NamespacedService"],
  Lease: [k8s.CoordinationV1Api, "NamespacedLease"],
};

class ClientNode extends Driver {
  constructor(told) {
    super(told);
    this.config = new k8s.KubeConfig();
    this.config.loadFromFile(this.kubeconfig);
  }

  api(kind = k8s.CoreV1Api) {
    return this.config.makeApiClient(kind);
  }

  named(name, more = {}) {
    return { name, namespace: this.namespace, ...more };
  }

  async create() {
    await this.api().createNamespacedConfigMap({ namespace: this.namespace, body: this.configmap() });
  }

  async read(name, times) {
    const api = this.api();
    let found;
    for (let time = 0; time < times; time++) {
      if (time) this.between();
      found = await api.readNamespacedConfigMap(this.named(name));
    }
    return found.data;
  }

  async pages() {
    const api = this.api();
    let token, count = 0;
    do {
      const page = await api.listNamespacedSecret({ namespace: this.namespace, limit: 2, _continue: token });
      count += page.items.length;
      token = page.metadata._continue;
    } while (token);
    return count;
  }

  async follow() {
    return await follow(async (note, fail) => {
      const api = this.api(), namespace = this.namespace;
      const path = `/api/v1/namespaces/${namespace}/secrets`;
      const informer = k8s.makeInformer(this.config, path, () => api.listNamespacedSecret({ namespace }));
      for (const [verb, kind] of [["add", "ADDED"], ["update", "MODIFIED"], ["delete", "DELETED"]]) {
        informer.on(verb, (one) => note(kind, one.metadata.name));
      }
      informer.on("error", fail);
      await informer.start();
      return () => informer.stop();
    });
  }

  async patch(body) {
    await this.api().patchNamespacedConfigMap(this.named("here", { body }));
  }

  async patched(api, method, request, strategy) {
    await api[method](request, k8s.setHeaderOptions("Content-Type", strategy));
  }

  async json_patch(body) {
    await this.patched(this.api(), "patchNamespacedConfigMap", this.named("here", { body }), k8s.PatchStrategy.JsonPatch);
  }

  async merge_patch(body) {
    await this.patched(this.api(), "patchNamespacedConfigMap", this.named("here", { body }), k8s.PatchStrategy.MergePatch);
  }

  async strategic_patch(body) {
    const api = this.api(k8s.AppsV1Api);
    await this.patched(api, "patchNamespacedDeployment", this.named("web", { body }), k8s.PatchStrategy.StrategicMergePatch);
  }

  async apply(name) {
    const request = this.named(name, { body: this.configmap(name), fieldManager: "driver" });
    await this.patched(this.api(), "patchNamespacedConfigMap", request, k8s.PatchStrategy.ServerSideApply);
  }

  async status(body) {
    const request = this.named("front", { body });
    await this.patched(this.api(), "patchNamespacedServiceStatus", request, k8s.PatchStrategy.MergePatch);
  }

  async scale() {
    const api = this.api(k8s.AppsV1Api);
    const scale = await api.readNamespacedDeploymentScale(this.named("web"));
    scale.spec.replicas = 1;
    await api.replaceNamespacedDeploymentScale(this.named("web", { body: scale }));
  }

  async execute() {
    const out = new PassThrough();
    let text = "";
    out.on("data", (chunk) => (text += chunk));
    await new Promise((resolve, reject) => {
      const exec = new k8s.Exec(this.config);
      exec.exec(this.namespace, "runner", "a", ["echo", "hello"], out, null, null, false, resolve).catch(reject);
    });
    return text;
  }

  async logs() {
    return await this.api().readNamespacedPodLog(this.named("runner"));
  }

  async forward(port) {
    const out = new PassThrough(), err = new PassThrough(), input = new PassThrough();
    const forward = new k8s.PortForward(this.config);
    const socket = await forward.portForward(this.namespace, "runner", [Number(port)], out, err, input);
    input.write("there\n");
    const text = await new Promise((resolve) => {
      out.once("data", (chunk) => resolve(String(chunk)));
      err.once("data", (chunk) => chunk.length && resolve(`error: ${chunk}`));
    });
    socket.close();
    return text;
  }

  async evict() {
    const body = { metadata: { name: "idle", namespace: this.namespace } };
    await this.api().createNamespacedPodEviction(this.named("idle", { body }));
  }

  async rewrite(kind, name) {
    const [api, method] = KINDS[kind];
    const client = this.api(api);
    const body = await client[`read${method}`](this.named(name));
    await client[`replace${method}`](this.named(name, { body }));
  }

  async stale() {
    const api = this.api();
    const body = await api.readNamespacedConfigMap(this.named("here"));
    for (const value of ["first", "second"]) {
      body.data = { a: value };
      await api.replaceNamespacedConfigMap(this.named("here", { body }));
    }
  }

  async secret() {
    const read = await this.api().readNamespacedSecret(this.named("key"));
    return `'${read.data.a}'`;
  }

  async delete_job() {
    await this.api(k8s.BatchV1Api).deleteNamespacedJob(this.named("work"));
  }
}

drive(ClientNode);
