// What cdk8s and cdk8s-plus synthesise for an application of all usual kinds: YAML on stdout.

import { App, ApiObject, Chart, Duration, JsonPatch, Lazy, Size } from "cdk8s";
import * as plus from "cdk8s-plus-33";

const app = new App();
const chart = new Chart(app, "shop", { labels: { app: "shop" } });
const image = "busybox";
const settings = new plus.ConfigMap(chart, "settings", { data: { mode: "test" } });
settings.addBinaryData("logo", "AAEC");
const key = new plus.Secret(chart, "key", { stringData: { password: "pass" } });
const account = new plus.ServiceAccount(chart, "account");
new plus.Role(chart, "reader").allowRead(plus.ApiResource.PODS);
const binding = new plus.RoleBinding(chart, "reads", { role: chart.node.findChild("reader") });
binding.addSubjects(account);
const deployment = new plus.Deployment(chart, "web", { replicas: 2, serviceAccount: account });
const web = deployment.addContainer({
  image,
  portNumber: 8080,
  command: ["sleep", "1000"],
  envVariables: {
    PASSWORD: plus.EnvValue.fromSecretValue({ secret: key, key: "password" }),
    MODE: plus.EnvValue.fromConfigMap(settings, "mode"),
    POD: plus.EnvValue.fromFieldRef(plus.EnvFieldPaths.POD_NAME),
  },
  liveness: plus.Probe.fromTcpSocket({ initialDelaySeconds: Duration.seconds(30) }),
  readiness: plus.Probe.fromHttpGet("/ready", { periodSeconds: Duration.seconds(5) }),
  resources: {
    cpu: { request: plus.Cpu.millis(10), limit: plus.Cpu.units(1) },
    memory: { request: Size.mebibytes(16), limit: Size.gibibytes(1) },
  },
  lifecycle: { preStop: plus.Handler.fromCommand(["true"]) },
});
web.mount("/settings", plus.Volume.fromConfigMap(chart, "mounted", settings));
web.mount("/scratch", plus.Volume.fromEmptyDir(chart, "scratch", "scratch", { sizeLimit: Size.mebibytes(10) }));
deployment.scheduling.separate(deployment, { weight: 1, topology: plus.Topology.HOSTNAME });
const front = deployment.exposeViaService({ ports: [{ port: 80, targetPort: 8080 }] });
front.exposeViaIngress("/shop");
new plus.HorizontalPodAutoscaler(chart, "scaler", {
  target: new plus.Deployment(chart, "scaled", {
    containers: [{ image, resources: { cpu: { request: plus.Cpu.millis(10) }, memory: { request: Size.mebibytes(8) } } }],
  }),
  maxReplicas: 3,
  metrics: [plus.Metric.resourceCpu(plus.MetricTarget.averageUtilization(70))],
});
const claim = new plus.PersistentVolumeClaim(chart, "claim", {
  accessModes: [plus.PersistentVolumeAccessMode.READ_WRITE_ONCE],
  storage: Size.gibibytes(1),
  storageClassName: "standard",
});
const headless = new plus.Service(chart, "nodes", { clusterIP: "None", ports: [{ port: 5432 }] });
const data = new plus.StatefulSet(chart, "data", { service: headless, containers: [{ image, command: ["sleep", "1000"] }] });
data.addVolume(plus.Volume.fromPersistentVolumeClaim(chart, "claimed", claim));
new plus.DaemonSet(chart, "agent", { containers: [{ image, command: ["sleep", "1000"] }] });
new plus.Job(chart, "load", {
  backoffLimit: 2,
  ttlAfterFinished: Duration.hours(1),
  activeDeadline: Duration.minutes(5),
  containers: [{ image, command: ["true"] }],
});
new plus.CronJob(chart, "nightly", {
  schedule: { expressionString: "0 3 * * *" },
  concurrencyPolicy: plus.ConcurrencyPolicy.FORBID,
  timeZone: "Europe/Berlin",
  containers: [{ image, command: ["true"] }],
});
new plus.NetworkPolicy(chart, "closed", { selector: deployment, ingress: { default: plus.NetworkPolicyTrafficDefault.DENY } });
const budget = new ApiObject(chart, "budget", {
  apiVersion: "policy/v1",
  kind: "PodDisruptionBudget",
  spec: { maxUnavailable: "50%", selector: { matchLabels: Lazy.any({ produce: () => deployment.matchLabels }) } },
});
budget.addJsonPatch(JsonPatch.replace("/spec/maxUnavailable", 1));
process.stdout.write(app.synthYaml());
