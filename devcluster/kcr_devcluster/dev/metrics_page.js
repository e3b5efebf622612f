// ---- metrics of the last minutes: a part of the script of kcr's debug page
data.metrics = null; // { times, seconds, error, families: name → { about, series: labels → { labels, values } } }
Object.assign(chosen, { controller: null, moment: null, showsAll: false, wanted: "" });
async function readMetrics() {
  const known = data.metrics || { times: [], families: new Map() };
  let told;
  try { told = await getJson("metrics", { since: known.times.at(-1) }); } catch (error) { if (error.status !== 503) throw error; return; }
  const times = [...known.times, ...told.times], gone = times.filter((t) => t <= times.at(-1) - told.keepSeconds).length;
  if (told.times.length) {
    for (const family of told.families) {
      const old = known.families.get(family.name)?.series || new Map(), series = new Map();
      for (const { labels, values } of family.series) {
        const key = JSON.stringify(labels), before = old.get(key)?.values || Array(known.times.length).fill(null);
        series.set(key, { labels, values: [...before, ...values].slice(gone) });
      }
      known.families.set(family.name, { about: family, series });
    }
    for (const name of known.families.keys()) if (!told.families.some((family) => family.name === name)) known.families.delete(name);
  }
  data.metrics = { ...known, times: times.slice(gone), error: told.error };
}
tabs.set("metrics", { title: "Metrics", read: readMetrics, show: () => metricsView(data.metrics) });

// Title, metric, and the labels that tell its lines apart.
const PLOTS = [
  ["Controllers", [
    ["Queue depth", "workqueue_depth", ["controller"]],
    ["Time in the queue", "workqueue_queue_duration_seconds", ["controller"]],
    ["Reconciles by result", "controller_runtime_reconcile", ["result"]],
    ["Duration of reconciles", "controller_runtime_reconcile_time_seconds", ["controller"]],
  ]],
  ["Requests", [
    ["Sent by this process, by verb and code", "rest_client_requests", ["method", "code"]],
    ["Their duration", "rest_client_request_duration_seconds", ["verb"]],
    ["At the API server, by verb and code", "apiserver_request", ["verb", "code"]],
    ["Their duration", "apiserver_request_duration_seconds", ["verb"]],
  ]],
  ["Caches", [
    ["Objects in the caches", "kcr_cache_objects", ["name"]],
    ["Watch events of the API server", "apiserver_watch_events", ["resource"]],
  ]],
  ["Process", [
    ["CPU", "process_cpu_seconds", []],
    ["Memory", "process_resident_memory_bytes", []],
    ["Lag of the event loop", "kcr_event_loop_lag_seconds", []],
  ]],
];
const CHOSEN = new Set(PLOTS.flatMap(([, plots]) => plots.map(([, name]) => name)));
const LINES = 6, MOST = 60; // lines of a plot, plots of a search

const last = (values) => values.findLast((value) => value != null) ?? null;
const most = (values) => values.reduce((top, value) => (value > top ? value : top), 0);
function figure(n) {
  if (n === 0 || n >= 100 || Number.isInteger(n)) return count(Math.round(n));
  return n < 0.005 ? "<0.01" : String(Number(n.toFixed(n < 10 ? 2 : 1)));
}
function shown(about, value) {
  if (value == null) return "–";
  if (about.name === "process_cpu_seconds") return `${Math.round(100 * value)} %`;
  if (about.kind === "counter") return `${about.name.endsWith("_bytes") ? bytes(value) : figure(value)} /s`;
  if (about.name.endsWith("_seconds")) return value === 0 ? "0 s" : took(value);
  return about.name.endsWith("_bytes") && value >= 2 ** 20 ? bytes(value) : figure(value);
}

// The labels that tell the lines of a family apart: those of `by`, or all.
const labelsOf = ({ series }, by) => (by || [...new Set([...series.values()].flatMap(({ labels }) => Object.keys(labels)))])
  .filter((label) => label !== "quantile" && !(label === "controller" && chosen.controller));
// Series that agree in these labels are one line, added up. A histogram has three quantiles if it is one line, else the highest of each.
function linesOf(family, by) {
  const { about, series } = family, labels = labelsOf(family, by), named = (one) => labels.map((label) => one.labels[label]).filter(Boolean).join(" ");
  let all = [...series.values()].filter((one) => !chosen.controller || !one.labels.controller || one.labels.controller === chosen.controller);
  const isHistogram = about.kind === "histogram", isSingle = isHistogram && new Set(all.map(named)).size === 1;
  if (isHistogram && !isSingle) all = all.filter((one) => one.labels.quantile === "0.99");
  const groups = new Map();
  for (const one of all) {
    const text = isSingle ? `p${100 * one.labels.quantile}` : named(one), known = groups.get(text);
    groups.set(text, known ? known.map((value, i) => (value == null ? one.values[i] : value + (one.values[i] ?? 0))) : one.values);
  }
  const lines = [...groups].map(([text, values]) => ({ text, values, top: most(values) }));
  // The highest are drawn; a line keeps its place, and so its colour, whatever its values do.
  const kept = lines.toSorted((a, b) => b.top - a.top).slice(0, LINES).sort((a, b) => a.text.localeCompare(b.text, "en", { numeric: true }));
  return { kept, left: lines.length - kept.length, note: isHistogram && !isSingle ? `p99 by ${labels.join(", ")}` : about.kind === "summary" ? "mean" : "" };
}
// The path of a line, and that of its points between gaps: lines of no length, which their round ends show.
function paths(values, times, from, to, top) {
  let line = "", points = "";
  values.forEach((value, i) => {
    if (value == null) return;
    const at = `${((100 * (times[i] - from)) / (to - from)).toFixed(2)} ${(96 - (90 * value) / top).toFixed(1)}`;
    if (values[i - 1] == null && values[i + 1] == null) points += `M${at}h0`;
    else line += `${values[i - 1] == null ? "M" : "L"}${at}`;
  });
  return [[line, 1.5], [points, 4]].filter(([d]) => d);
}
const span = (times) => { const to = times.at(-1); return [Math.min(times[0], to - 60), to]; };
function nearest(times, moment) { return times.reduce((best, t, i) => (Math.abs(t - moment) < Math.abs(times[best] - moment) ? i : best), 0); }
function look(moment) { if (chosen.moment !== moment) { chosen.moment = moment; render(); } }
function pointed(event) {
  const { times } = data.metrics, box = event.currentTarget.getBoundingClientRect(), [from, to] = span(times);
  look(times[nearest(times, from + ((to - from) * (event.clientX - box.left)) / box.width)]);
}
function stepped(event) {
  const { times } = data.metrics, at = chosen.moment == null ? times.length - 1 : nearest(times, chosen.moment);
  const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: times.length - 1 }[event.key];
  if (event.key === "Escape") look(null);
  if (next == null) return;
  event.preventDefault();
  look(times[Math.min(times.length - 1, Math.max(0, next))]);
}
function legend(about, lines, at) {
  const value = (line) => shown(about, at == null ? last(line.values) : line.values[at]);
  return lines.map((line) => ({ text: line.text || "value", value: value(line) }));
}
function curves(about, title, lines, at) {
  const { times } = data.metrics, [from, to] = span(times), top = Math.max(0, ...lines.map((line) => line.top));
  const said = legend(about, lines, at).map(({ text, value }) => `${text} ${value}`).join(", ") || "no values";
  const moment = at == null ? "" : `${clock(new Date(1000 * times[at]))}: `;
  return h("div.curves", { role: "slider", tabindex: "0", "aria-label": title, "aria-valuemin": "0", "aria-valuemax": times.length - 1, "aria-valuenow": at ?? times.length - 1,
    "aria-valuetext": moment + said, onpointermove: pointed, onpointerleave: () => look(null), onkeydown: stepped, onblur: () => look(null) },
    h("svg", { viewBox: "0 0 100 97", preserveAspectRatio: "none", "aria-hidden": "true" }, lines.map((line, i) => paths(line.values, times, from, to, top || 1).map(([d, width]) => h("path", { key: `${line.text} ${width}`, d,
      fill: "none", style: { stroke: `var(--line-${i})` }, "stroke-width": width, "stroke-linecap": "round", "stroke-linejoin": "round", "vector-effect": "non-scaling-stroke" })))),
    h("span.most.dim", {}, shown(about, top)),
    at != null && h("i.at", { key: "at", style: { left: `${(100 * (times[at] - from)) / (to - from)}%` } }));
}
function ticks(times, at) {
  const [from, to] = span(times);
  return at == null ? [`${age(to - from)} ago`, "now"] : [clock(new Date(1000 * times[at])), `${age(to - times[at])} ago`];
}
function plot(title, family, by) {
  const { about } = family, { times } = data.metrics, { kept, left, note } = linesOf(family, by), more = left + about.leftOut;
  const at = chosen.moment == null ? null : nearest(times, chosen.moment), name = `${about.name}${about.kind === "counter" ? "_total" : ""}`;
  return h("div.plot", { key: about.name },
    h("h3.clip", { title: title || name }, title || name),
    h("div.dim.clip.name", { title: about.help }, [title ? name : about.help, note].filter(Boolean).join(" · ")),
    curves(about, title || name, kept, at),
    h("div.ticks", { "aria-hidden": "true" }, ticks(times, at).map((text) => h("span", {}, text))),
    h("dl.keys", {}, legend(about, kept, at).map(({ text, value }, i) => [h("dt", {}, h("i", { style: { background: `var(--line-${i})` } }), h("span.clip", { title: text }, text)), h("dd", {}, value)])),
    more > 0 && h("div.dim", { key: "more" }, `${count(more)} more series`));
}
const plotsCard = (title, plots, note) => (plots.length > 0 || note) && h("section.card", { key: `plots ${title}`, "aria-label": title },
  h("div.head", {}, h("h2", {}, title), note && h("span.dim", {}, note)), h("div.plots", {}, plots));
function choice(families, error) {
  const controllers = [...new Set(families.flatMap(({ series }) => [...series.values()].map(({ labels }) => labels.controller)))].filter(Boolean).sort();
  const choose = (name) => { chosen.controller = chosen.controller === name ? null : name; render(); };
  return h("section.card", { key: "choice", "aria-label": "Choice" }, h("div.tools", { style: { border: "0" } },
    h("input", { type: "search", key: "filter", value: chosen.wanted, placeholder: "Filter metrics", "aria-label": "Filter the metrics",
      oninput: (event) => { chosen.wanted = event.target.value; render(); } }),
    controllers.map((name) => h("button.chip", { key: `controller ${name}`, "aria-pressed": String(chosen.controller === name), onclick: () => choose(name) }, name)),
    error && h("span.trouble", { key: "error" }, error)));
}
function metricsView(metrics) {
  if (!metrics || !metrics.times.length) return h("p.dim", {}, "Reading…");
  const wanted = chosen.wanted.toLowerCase().trim(), families = [...metrics.families.values()].filter(({ series }) => series.size > 0);
  const plain = (family) => plot("", family, null), tools = choice(families, metrics.error);
  if (wanted) {
    const found = families.filter(({ about }) => [about.name, about.help].some((text) => text.toLowerCase().includes(wanted)));
    return [tools, plotsCard("Found", found.slice(0, MOST).map(plain), found.length > MOST ? `the first ${MOST} of ${count(found.length)} metrics` : plural(found.length, "metric"))];
  }
  const others = families.filter(({ about }) => !about.isOwn && !CHOSEN.has(about.name)), has = ([, name]) => metrics.families.get(name)?.series.size;
  return [tools,
    plotsCard("Your metrics", families.filter(({ about }) => about.isOwn).map(plain)),
    PLOTS.map(([title, plots]) => plotsCard(title, plots.filter(has).map(([text, name, by]) => plot(text, metrics.families.get(name), by)))),
    others.length > 0 && (chosen.showsAll ? plotsCard("Others", others.map(plain))
      : h("p", { key: "all" }, h("button.link", { onclick: () => { chosen.showsAll = true; render(); } }, `Show ${plural(others.length, "more metric")}`)))];
}
