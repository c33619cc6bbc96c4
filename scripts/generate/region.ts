/** Puts `content` between the marks of a page: `<!-- generated: name -->` and `<!-- end: name -->`. Throws when they are not there. */
export const replaceRegion = (page: string, name: string, content: string): string => {
  const [open, close] = [`<!-- generated: ${name} -->`, `<!-- end: ${name} -->`];
  const from = page.indexOf(open);
  const to = page.indexOf(close);
  if (from < 0 || to < from) throw new Error(`the page has no region ${open} … ${close}`);
  return `${page.slice(0, from + open.length)}\n\n${content}\n\n${page.slice(to)}`;
};
