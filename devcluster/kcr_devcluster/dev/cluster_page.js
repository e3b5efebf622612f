// ---- Jobs, CronJobs, Deployments and pods of the cluster: a part of the script of kcr's debug page
const whole = (seconds) => (seconds < 99.5 ? `${Math.max(0, Math.round(seconds))} s` : age(seconds)); // of times in whole seconds
Object.assign(data, { cluster: null, job: null, log: null });
chosen.container = null;
async function readJobs(now) {
  const job = now.get("job");
  // 503: the event loop is blocked, as the state says; what was read before stays.
  try {
    data.cluster = await getJson("cluster");
    data.job = job ? { ...(await getJson("cluster", { job })), name: job } : null;
  } catch (error) { if (error.status !== 503) throw error; }
  await readLog(now);
}
async function readLog(now) {
  if (!now.get("pod")) return (data.log = null);
  const [namespace, pod] = now.get("pod").split("/");
  try {
    const answer = await get("logs", { namespace, pod, container: chosen.container, tail: 500 });
    data.log = { pod: now.get("pod"), text: await answer.text() };
  } catch (error) { if (!error.status) throw error; data.log = { pod: now.get("pod"), text: "", error: error.message }; }
}
tabs.set("jobs", { title: "Jobs", read: readJobs, show: () => jobsView(data.cluster) });

const ended = (job) => job.state === "Complete" || job.state === "Failed";
function jobRow(job, now) {
  const name = `${job.namespace}/${job.name}`, isOpen = route().get("job") === name;
  const total = Math.max(1, job.completions ?? job.parallelism, job.succeeded + job.active), ready = Math.min(job.ready, job.active);
  const part = (kind, n) => n > 0 && h(`i.${kind}`, { key: kind, style: { width: `${(100 * n) / total}%` } });
  const telling = job.conditions.filter((condition) => condition.type !== "Complete" && condition.type !== "SuccessCriteriaMet");
  const bad = job.state === "Failed" || job.failed > 0 || job.isTroubled;
  const why = job.why ? [job.why] : telling.map((condition) => [condition.type, condition.reason, condition.message].filter(Boolean).join(": "));
  return h("div", { key: job.uid },
    h("button.job", { "aria-expanded": String(isOpen), onclick: () => go({ job: isOpen ? null : name, pod: null }) },
      h("span.clip", { title: name }, job.namespace !== "default" && h("span.dim", {}, `${job.namespace}/`), job.name),
      h("span.stack", { title: `${job.succeeded} succeeded, ${job.active} active, ${job.ready} ready, ${job.failed} failed` },
        part("succeeded", job.succeeded), part("ready", ready), part("active", job.active - ready), part("failed", Math.min(job.failed, total - job.succeeded - job.active))),
      h("span.num", {}, count(job.succeeded), h("span.dim", {}, ` / ${job.completions == null ? "–" : count(job.completions)}`)),
      h("span.opt", { class: job.state === "Failed" || job.isTroubled ? "trouble" : job.state === "Running" ? "" : "dim" }, job.state),
      h("span.num.dim", {}, whole(between(job.startedAt || job.createdAt, job.endedAt || now))),
      (job.failed > 0 || why.length > 0) && h("span.under", { key: "under", class: bad ? "trouble" : "dim" },
        [job.failed > 0 && `${plural(job.failed, "pod")} failed`, ...why].filter(Boolean).join(" · ")),
      job.warning && lastWarning(job.warning, now)),
    isOpen && h("div.open", { key: "open" }, jobDetail(job)));
}
function lastWarning(warning, now) {
  const text = `${warning.reason}${warning.count > 1 ? ` (x${count(warning.count)})` : ""}: ${warning.message}`;
  return h("span.under.dim.two-lines", { key: "warning", title: [warning.about, text].filter(Boolean).join(": ") }, `Last warning ${whole(between(warning.lastSeen, now))} ago: ${text}`);
}
function jobDetail(job) {
  const told = data.job;
  if (!told || told.name !== `${job.namespace}/${job.name}`) return h("p.dim", {}, "Reading…");
  // What a user can do something about comes first; of a Job that runs as it should, the pods do.
  const why = told.explanation && h("div.explained", { key: "why" }, explained(told.explanation)), pods = jobPods(job, told);
  return why && told.explanation.remedies.length ? [why, pods] : [pods, why];
}
function jobPods(job, told) {
  const pods = told.pods.slice(0, 200), left = told.podsLeftOut + told.pods.length - pods.length, pod = route().get("pod");
  if (!pods.length) return h("p.dim", { key: "none" }, "It has no pods.");
  const from = Math.min(...pods.map((each) => Date.parse(each.createdAt))), shown = pods.find((each) => `${each.namespace}/${each.name}` === pod);
  const to = Math.max(from + 1000, ...pods.map((each) => Date.parse(each.endedAt || told.now)));
  return [
    h("div.legend", { key: "legend" }, [["waiting", "pending"], ["ready", "running"], ["succeeded", "succeeded"], ["failed", "failed"]].map(([kind, text]) => h("span", {}, h(`i.${kind}`, {}), text))),
    h("div.axis", { key: "axis" }, [0, 0.25, 0.5, 0.75, 1].map((part) => h("span", { style: { left: `${100 * part}%` } }, part ? age((part * (to - from)) / 1000) : "0"))),
    h("div.timeline", { key: "timeline" }, pods.map((each) => podRow(each, job, from, to, told.now))),
    left > 0 && h("p.dim", { key: "left" }, `${plural(left, "pod")} more not drawn`),
    shown ? log(shown) : h("p.dim", { key: "hint" }, "Choose a pod to see its log."),
  ];
}
function podRow(pod, job, from, to, now) {
  const name = `${pod.namespace}/${pod.name}`, isShown = route().get("pod") === name, end = pod.endedAt || now;
  const at = (moment) => (100 * (Date.parse(moment) - from)) / (to - from);
  const span = (kind, start, stop) => h(`i.${kind}`, { key: kind, style: { left: `min(${at(start)}%, calc(100% - 3px))`, width: `${Math.max(0, at(stop) - at(start))}%` } });
  const kind = { Succeeded: "succeeded", Failed: "failed", Running: "ready" }[pod.phase] || "active";
  const label = pod.name.startsWith(`${job.name}-`) ? pod.name.slice(job.name.length + 1) : pod.name;
  return h("button.pod", { key: name, "aria-pressed": String(isShown), onclick: () => { chosen.container = null; go({ pod: isShown ? null : name }); } },
    h("span.clip", { title: name }, label),
    h("span.spans", {}, Date.parse(pod.startedAt || end) > Date.parse(pod.createdAt) && span("waiting", pod.createdAt, pod.startedAt || end),
      (pod.startedAt || pod.endedAt) && span(kind, pod.startedAt || pod.endedAt, end)),
    h("span.clip", { class: pod.phase === "Failed" ? "trouble" : "dim", title: podState(pod) },
      pod.phase === "Succeeded" ? whole(between(pod.startedAt || pod.createdAt, end)) : podState(pod)));
}
const podState = (pod) => (pod.phase === "Succeeded" ? "succeeded"
  : [pod.phase === "Failed" || (["Pending", "Running"].includes(pod.phase) && pod.reason) ? "" : pod.phase.toLowerCase(), pod.exitCode != null && `exit ${pod.exitCode}`, pod.reason].filter(Boolean).join(" · ") || pod.phase.toLowerCase());
function log(pod) {
  const name = `${pod.namespace}/${pod.name}`, told = data.log && data.log.pod === name ? data.log : null;
  const choose = (event) => { chosen.container = event.target.value; tick(); };
  return h("div.log", { key: `log ${name}` },
    h("div.tools", {}, h("h3.grow.clip", {}, `Log of ${name}`),
      pod.containers.length > 1 && h("select", { key: "container", "aria-label": "Container", onchange: choose },
        pod.containers.map((container) => h("option", { key: container, value: container, selected: container === chosen.container }, container))),
      h("span.dim", {}, "last 500 lines")),
    h("pre", { tabindex: "0", "data-log": "" }, told ? told.error || told.text || "It is empty." : "Reading…"));
}
function cronJobsCard(cluster) {
  const since = (moment) => (moment ? `${whole(between(moment, cluster.now))} ago` : "–");
  const row = (cron) => h("tr", { key: cron.uid },
    h("td", { title: `${cron.namespace}/${cron.name}` }, cron.namespace !== "default" && h("span.dim", {}, `${cron.namespace}/`), cron.name),
    h("td", {}, h("code", {}, cron.schedule), cron.timeZone && h("span.dim", {}, ` ${cron.timeZone}`)),
    h("td", { class: cron.error ? "trouble" : cron.suspended ? "dim" : "", title: cron.error },
      cron.error || (cron.suspended ? "suspended" : cron.nextSchedule ? `in ${whole(between(cluster.now, cron.nextSchedule))}` : "–")),
    h("td.num", {}, count(cron.active)), h("td.num.opt", {}, since(cron.lastSchedule)), h("td.num.opt", {}, since(cron.lastSuccess)));
  return h("section.card", { key: "cronjobs", "aria-label": "CronJobs" }, h("div.head", {}, h("h2", {}, "CronJobs")),
    h("div.scroll", {}, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Name"), h("th", {}, "Schedule"), h("th", {}, "Next"),
      h("th.num", { style: { width: "64px" } }, "Active"), h("th.num.opt", {}, "Last scheduled"), h("th.num.opt", {}, "Last success"))), h("tbody", {}, cluster.cronJobs.map(row)))));
}
const nameOf = (pod) => `${pod.namespace}/${pod.name}`;
const showLog = (pod) => { chosen.container = null; go({ job: null, pod: route().get("pod") === nameOf(pod) ? null : nameOf(pod) }); };
const chosenOf = (pods) => !route().get("job") && pods.find((pod) => nameOf(pod) === route().get("pod"));
const podKind = (pod) => (pod.phase === "Failed" || pod.reason ? "trouble" : "");
function deploymentRow(deployment, pods, now) {
  const { replicas, ready } = deployment, total = Math.max(1, replicas, pods.length), active = Math.max(0, pods.length - ready);
  const part = (kind, n) => n > 0 && h(`i.${kind}`, { key: kind, style: { width: `${(100 * n) / total}%` } });
  const kind = deployment.isTroubled ? "trouble" : "dim", shown = chosenOf(pods);
  return h("div", { key: deployment.uid },
    h("div.job", {},
      h("span.clip", { title: nameOf(deployment) }, deployment.namespace !== "default" && h("span.dim", {}, `${deployment.namespace}/`), deployment.name),
      h("span.stack", { title: `${ready} of ${replicas} ready, ${deployment.updated} of the present template` }, part("ready", Math.min(ready, total)), part("active", active)),
      h("span.num", {}, count(ready), h("span.dim", {}, ` / ${count(replicas)}`)),
      h("span.opt", { class: deployment.state === "Available" ? "" : kind }, deployment.state),
      h("span.num.dim", {}, whole(between(deployment.createdAt, now))),
      deployment.why && h("span.under", { key: "under", class: kind }, deployment.why),
      deployment.warning && lastWarning(deployment.warning, now)),
    pods.map((pod) => h("button.below", { key: nameOf(pod), title: `Log of ${nameOf(pod)}`, "aria-pressed": String(pod === shown), onclick: () => showLog(pod) },
      h("span.clip.link", {}, pod.name), h("span.clip", { class: podKind(pod) || "dim" }, podState(pod)),
      h("span.num.dim.opt", {}, pod.restarts > 0 && plural(pod.restarts, "restart")), h("span.num.dim", {}, whole(between(pod.createdAt, now))))),
    shown && h("div.open", { key: "log" }, log(shown)));
}
function deploymentsCard(cluster) {
  const row = (deployment) => deploymentRow(deployment, cluster.pods.filter((pod) => pod.deployment === deployment.name && pod.namespace === deployment.namespace), cluster.now);
  const available = cluster.deployments.filter((deployment) => deployment.state === "Available").length;
  return h("section.card", { key: "deployments", "aria-label": "Deployments" },
    h("div.head", {}, h("h2", {}, "Deployments"), h("span.dim.grow", {}, `${count(available)} of ${count(cluster.deployments.length)} available`)),
    limited("deployments", cluster.deployments, 50, row));
}
function podsCard(cluster, pods) {
  const shown = chosenOf(pods);
  const row = (pod) => h("tr", { key: nameOf(pod) },
    h("td", {}, h("button.link.clip", { title: `Log of ${nameOf(pod)}`, onclick: () => showLog(pod) }, nameOf(pod))),
    h("td", { class: podKind(pod) }, podState(pod)),
    h("td.num.opt", {}, count(pod.restarts)), h("td.opt.dim", {}, pod.node || "–"), h("td.num", {}, whole(between(pod.createdAt, cluster.now))));
  return h("section.card", { key: "pods", "aria-label": "Other pods" }, h("div.head", {}, h("h2", {}, "Other pods")),
    h("div.scroll", {}, h("table", {}, h("thead", {}, h("tr", {}, h("th", { style: { width: "40%" } }, "Pod"), h("th", {}, "Phase"),
      h("th.num.opt", { style: { width: "80px" } }, "Restarts"), h("th.opt", {}, "Node"), h("th.num", { style: { width: "80px" } }, "Age"))), h("tbody", {}, pods.map(row)))),
    cluster.podsLeftOut > 0 && h("div.more", { key: "left" }, `${count(cluster.podsLeftOut)} more are not listed`),
    shown && h("div.open", { key: "log" }, log(shown)));
}
function jobsView(cluster) {
  if (!cluster) return h("p.dim", {}, "Reading…");
  const states = new Map();
  for (const job of cluster.jobs) states.set(job.state, (states.get(job.state) || 0) + 1);
  const others = cluster.pods.filter((pod) => !pod.deployment);
  const jobs = [...cluster.jobs.filter((job) => !ended(job)), ...cluster.jobs.filter(ended)];
  return [
    h("section.card", { key: "jobs", "aria-label": "Jobs" },
      h("div.head", {}, h("h2", {}, "Jobs"), h("span.dim.grow", {}, [...states].map(([state, n]) => `${count(n)} ${state.toLowerCase()}`).join(", "))),
      cluster.jobs.length ? limited("jobs", jobs, 100, (job) => jobRow(job, cluster.now), cluster.jobsLeftOut) : h("div.empty", {}, "There are no Jobs.")),
    cluster.cronJobs.length > 0 && cronJobsCard(cluster),
    cluster.deployments.length > 0 && deploymentsCard(cluster),
    (others.length > 0 || cluster.podsLeftOut > 0) && podsCard(cluster, others),
  ];
}
