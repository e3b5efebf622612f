// The menu of a page: it leads to the same page of another version, or to the first page where that version has none.
{
  const place = document.getElementById("versions");
  const { version, page, root } = place.dataset;
  const menu = document.createElement("select");
  for (const [name, pages] of VERSIONS) {
    const target = `${root}${name}/${pages.includes(page) ? page : "index.html"}`;
    menu.add(new Option(name === LATEST ? `${name} (latest)` : name, target, false, name === version));
  }
  menu.addEventListener("change", () => location.assign(menu.value));
  menu.style.cssText = "color: inherit; background: var(--color-background-primary); font: inherit";
  const label = document.createElement("label");
  label.style.cssText = "display: block; padding: 0.5rem var(--sidebar-item-spacing-horizontal); font-size: var(--sidebar-item-font-size)";
  label.append("Version ", menu);
  place.append(label);
  place.hidden = false;
}
