// kubernetes-fluent-client, whose every request reads the kubeconfig.

import { K8s, RegisterKind, kind } from "kubernetes-fluent-client";
import { Driver, drive, follow } from "./driving.mjs";

class Lease {}
RegisterKind(Lease, { group: "coordination.k8s.io", version: "v1", kind: "Lease", plural: "leases" });
const KINDS = { Deployment: kind.Deployment, NetworkPolicy: kind.NetworkPolicy, Service: kind.Service, Lease };

class Fluent extends Driver {
  constructor(told) {
    super(told);
    process.env.KUBECONFIG = this.kubeconfig;
  }

  of(model) {
    return K8s(model).InNamespace(this.namespace);
  }

  async create() {
    await K8s(kind.ConfigMap).Create(this.configmap());
  }

  async read(name, times) {
    let found;
    for (let time = 0; time < times; time++) {
      if (time) this.between();
      found = await this.of(kind.ConfigMap).Get(name);
    }
    return found.data;
  }

  async follow() {
    return await follow(async (note) => {
      const watcher = this.of(kind.Secret).Watch((one, phase) => note(phase, one.metadata?.name ?? ""));
      await watcher.start();
      return () => watcher.close();
    });
  }

  async json_patch(body) {
    await K8s(kind.ConfigMap, { namespace: this.namespace, name: "here" }).Patch(body);
  }

  async apply(name) {
    await K8s(kind.ConfigMap).Apply(this.configmap(name));
  }

  async status(body) {
    await K8s(kind.Service).PatchStatus({ metadata: { name: "front", namespace: this.namespace }, ...body });
  }

  async scale() {
    await this.of(kind.Deployment).Scale(1, "web");
  }

  async logs() {
    return (await this.of(kind.Pod).Logs("runner")).join("\n");
  }

  async evict() {
    await this.of(kind.Pod).Evict("idle");
  }

  async rewrite(named, name) {
    const read = await this.of(KINDS[named]).Get(name);
    delete read.metadata.managedFields;
    await K8s(KINDS[named]).Apply(read, { force: true });
  }

  async secret() {
    return `'${(await this.of(kind.Secret).Get("key")).data.a}'`;
  }

  async delete_job() {
    await this.of(kind.Job).Delete("work");
  }
}

drive(Fluent);
