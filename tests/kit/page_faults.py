"""What is wrong with a page that a browser shows: expressions for `tools.devtools.Tab.evaluate`."""

# What a page has that does not fit its window, and texts that are too pale (WCAG 2.2, 1.4.3, level AA).
FAULTS = r"""(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number)
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * (top[3] ?? 1) + under[i] * (1 - (top[3] ?? 1)))
  const linear = (value) => value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4
  const light = (colour) => 0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2])
  const behind = (element) => element
    ? over(parts(getComputedStyle(element).backgroundColor), behind(element.parentElement)) : [255, 255, 255]
  const found = []
  const wide = document.documentElement.scrollWidth
  if (wide > innerWidth) found.push(`${wide} pixels wide`)
  if (innerWidth > 1000) for (const table of document.querySelectorAll('.table-wrapper'))
    if (table.scrollWidth > table.clientWidth + 1) found.push(`table too wide: ${table.innerText.slice(0, 60)}`)
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, style = getComputedStyle(element)
    if (!texts.currentNode.textContent.trim() || !element.offsetParent || style.visibility === 'hidden') continue
    const paper = behind(element), ink = over(parts(style.color), paper)
    const [pale, dark] = [light(ink), light(paper)].sort((a, b) => b - a)
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700
    if ((pale + 0.05) / (dark + 0.05) < (large ? 3 : 4.5))
      found.push(`too pale: ${texts.currentNode.textContent.trim().slice(0, 60)}`)
  }
  return found
})()"""
LOADED = "new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', () => done()))"
