/** A place of the navigation: the pages that answer one question, by their names. The place leads to its first page. */
export interface Place {
  name: string;
  pages: Readonly<Record<string, string>>;
}

/** The places: what needs me, which hosts, is the data whole, what changed, who may send. */
export const places: readonly Place[] = [
  { name: "Now", pages: { Overview: "/", Watches: "/watches" } },
  { name: "Fleet", pages: { Hosts: "/fleet" } },
  { name: "Data", pages: { Completeness: "/data/completeness", Volume: "/data/volume" } },
  {
    name: "Changes",
    pages: {
      Audit: "/changes/audit",
      Rollouts: "/changes/rollouts",
      Configs: "/changes/configs",
    },
  },
  {
    name: "Access",
    pages: { Enrollment: "/access/enrollment", Inventory: "/access/inventory" },
  },
];

/** Returns a page's path without its place, as core's API has it: `rollouts`. */
export const pageNameOf = (path: string): string =>
  path.replace(/^\/((data|changes|access)\/)?/, "");

const placePaths = new Map(
  places.map(({ name, pages }) => [name.toLowerCase(), Object.values(pages)[0]]),
);
const pagePaths = new Map(
  places.flatMap(({ pages }) => Object.values(pages)).map((path) => [pageNameOf(path), path]),
);

/** Returns the present address of a page for one of an earlier release, such as `/audit?q=x`, or of a place, such as `/data`. */
export const presentAddress = (address: string): string => {
  const [, first = "", rest = ""] = /^\/(\w+)(.*)$/s.exec(address) ?? [];
  const path = pagePaths.get(first) ?? (rest.startsWith("/") ? undefined : placePaths.get(first));
  return path === undefined ? address : path + rest;
};
