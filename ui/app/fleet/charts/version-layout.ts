import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import { formatCountOf } from "../../format/amount.ts";
import { plainText } from "../../format/plain-text.ts";
import { type Bar, percent } from "./layout.ts";

/** A version, or all the rest: its bar lies, with the count as its width. */
export interface VersionRow extends Bar {
  /** What is wrong with it, in a word. */
  note: string;
}

/** Rows of 24 px, so that each is a target that can be hit. */
export const versionRowHeight = 24;
const rowsMax = 4;

/** Where the bars begin and how far they reach at most, in percent; the names stand before, the counts behind. */
export const versionBars = { x: 34, width: 42 } as const;

/** Which versions run: a row each for the most frequent and one for the rest; those that are not supported are marked. */
export const layOutVersions = ({ versions, versions_other }: FleetFacets): VersionRow[] => {
  const shown = versions.length <= rowsMax && versions_other === 0 ? rowsMax : rowsMax - 1;
  const rest = versions.slice(shown);
  const restCount = rest.reduce((sum, { count }) => sum + count, versions_other);
  const unsupported = rest.filter(({ supported }) => !supported).reduce((sum, { count }) => sum + count, 0);
  const countMax = Math.max(1, restCount, ...versions.map(({ count }) => count));
  const place = (count: number) => ({
    x: versionBars.x,
    width: count === 0 ? 0 : Math.max(1, percent((count / countMax) * (versionBars.width / 100))),
    height: 12,
  });
  const rows = versions.slice(0, shown).map(({ version, count, supported }) => ({
    count,
    marked: !supported,
    ...place(count),
    label: plainText(version),
    note: supported ? "" : "unsupported",
    name: `${formatCountOf(count, "host")}, version ${plainText(version)}${supported ? "" : ", unsupported"}`,
    filter: { change: { version }, name: "filter to it" },
  }));
  if (restCount === 0) return rows;
  const others = versions_other > 0 ? "other versions" : formatCountOf(rest.length, "other version");
  return [
    ...rows,
    {
      count: restCount,
      marked: unsupported > 0,
      ...place(restCount),
      label: others,
      note: unsupported > 0 ? `${unsupported} unsupported` : "",
      name: `${formatCountOf(restCount, "host")}, ${others}${unsupported > 0 ? `, ${unsupported} of them unsupported` : ""}`,
      ...(unsupported > 0
        ? {
            filter: {
              change: { states: ["unsupported_version"] as const },
              name: "filter to state unsupported version",
            },
          }
        : {}),
    },
  ];
};
