import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import { formatCountOf, plainText } from "../../format/format.ts";
import { type Bar, percent } from "./bars.ts";

/** A version, or all the others together: a horizontal bar whose width is the count. */
export interface VersionRow extends Bar {
  /** Its fault in a word; empty without one. */
  note: string;
}

/** Rows of 24 px, so that each is a target large enough to hit. */
export const versionRowHeight = 24;
const rowsMax = 3;

/** The start and the greatest width of the bars, in percent; names are to the left, counts to the right. */
export const versionBars = { x: 36, width: 14 } as const;

/** Lays out a row for each of the most frequent versions and one for the rest; unsupported ones are marked. */
export const layOutVersions = ({ versions, versions_other }: FleetFacets): VersionRow[] => {
  const shown = versions.length <= rowsMax && versions_other === 0 ? rowsMax : rowsMax - 1;
  const rest = versions.slice(shown);
  const restCount = rest.reduce((sum, { count }) => sum + count, versions_other);
  const hasUnsupported = rest.some(({ supported }) => !supported);
  const countMax = Math.max(1, restCount, ...versions.map(({ count }) => count));
  const barOf = (count: number) => ({
    count,
    x: versionBars.x,
    width: count === 0 ? 0 : Math.max(1, percent((count / countMax) * (versionBars.width / 100))),
    height: 12,
  });
  const rows = versions.slice(0, shown).map(({ version, count, supported }) => ({
    ...barOf(count),
    marked: !supported,
    label: plainText(version),
    note: supported ? "" : "unsupported",
    name: `${formatCountOf(count, "host")}, version ${plainText(version)}${supported ? "" : ", unsupported"}`,
    filter: { version: [version] },
  }));
  if (restCount === 0) return rows;
  const label = versions_other > 0 ? "other versions" : formatCountOf(rest.length, "other version");
  const name = `${formatCountOf(restCount, "host")}, ${label}`;
  const filter = { notVersion: versions.slice(0, shown).map(({ version }) => version) };
  const others = { ...barOf(restCount), label, filter };
  if (!hasUnsupported) return [...rows, { ...others, marked: false, note: "", name }];
  return [
    ...rows,
    {
      ...others,
      marked: true,
      note: "some unsupported",
      name: `${name}, some of them unsupported`,
    },
  ];
};
