import type { SourceFile } from "./imports.ts";

/** The number of files that each route may reach, by the route's file (budgets.json). */
export type RouteBudgets = Readonly<Record<string, number>>;

/** Lists the routes: each file of which it imports values is one. */
const routeList = "functions/v1/index.ts";
/** A budget further above the files that its route reaches is lowered, so that what was won is kept. */
const slackMax = 3;

/** Returns every route whose value imports reach more files than its budget allows, and every budget that does not fit its route. */
export const routeFaults = (sources: readonly SourceFile[], budgets: RouteBudgets): string[] => {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const routes = valueImportsOf(byPath.get(routeList)).map((path) => ({
    path,
    reached: reachOf(path, byPath),
  }));
  const listed = new Set(routes.map(({ path }) => path));
  const over = routes.filter(({ path, reached }) => reached.size > (budgets[path] ?? reached.size));
  const smallest = over.toSorted((a, b) => a.reached.size - b.reached.size)[0];
  return [
    ...routes.flatMap(({ path, reached: { size } }) => {
      const budget = budgets[path];
      if (budget === undefined) return [`${path}: has no budget; it reaches ${size} files`];
      if (size > budget)
        return [`${path}: reaches ${size} files, more than its budget of ${budget}`];
      return size < budget - slackMax
        ? [`${path}: reaches only ${size} files; lower its budget of ${budget}`]
        : [];
    }),
    ...Object.keys(budgets).flatMap((path) =>
      listed.has(path) ? [] : [`${path}: has a budget, but is no route`],
    ),
    ...(smallest
      ? [`Every file that ${smallest.path} reaches, under the file that imports it:`]
      : []),
    ...(smallest ? treeOf(smallest.path, smallest.reached) : []),
  ];
};

/** Returns the files that the value imports of a file reach, each with its importer on a shortest chain; the file itself has none. */
const reachOf = (
  root: string,
  sources: ReadonlyMap<string, SourceFile>,
): ReadonlyMap<string, string | null> => {
  const importers = new Map<string, string | null>([[root, null]]);
  // A map also iterates over what is added meanwhile: breadth first.
  for (const path of importers.keys())
    for (const to of valueImportsOf(sources.get(path)))
      if (!importers.has(to)) importers.set(to, path);
  return importers;
};

/** `import { type A }` counts: without the specifier, the import itself stays (`verbatimModuleSyntax`). */
const valueImportsOf = (source: SourceFile | undefined): string[] =>
  (source?.imports ?? []).flatMap(({ to, kind, typeOnly }) =>
    kind === "file" && !typeOnly ? [to] : [],
  );

const treeOf = (
  root: string,
  importers: ReadonlyMap<string, string | null>,
  indent = "  ",
): string[] =>
  [...importers].flatMap(([path, importer]) =>
    importer === root ? [`${indent}${path}`, ...treeOf(path, importers, `${indent}  `)] : [],
  );
