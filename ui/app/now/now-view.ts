import { isHeld, type NowLine, type NowReport, type NowStrip } from "#proto/now/report.ts";
import type { ShapeName } from "../design/icon.tsx";
import {
  formatBytes,
  formatCount,
  formatCountOf,
  formatDuration,
  formatTimestamp,
  plainText,
  type TimeZone,
} from "../format/format.ts";

/** The last look of a person at the lines, with its age in words: `7 h`. */
export interface EarlierLook {
  ago: string;
  isNew(line: NowLine): boolean;
}

const numbers = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];

const countOf = (count: number, one: string, many = `${one}s`) =>
  `${numbers[count] ?? formatCount(count)} ${count === 1 ? one : many}`;

/** Returns how many lines nobody has taken. */
export const untakenOf = ({ lines, lines_other }: NowReport): number =>
  lines.filter((line) => !isHeld(line)).length + lines_other;

/** Lines of a group beyond so many are folded. */
export const unfoldedMax = 5;

/** Groups lines that are of a kind, as urgent and as taken. */
export const groupLines = (lines: readonly NowLine[]): Map<string, NowLine[]> =>
  Map.groupBy(lines, (line) => `${line.kind} ${line.severity} ${isHeld(line)}`);

/** Names folded lines: `35 more firing watches, 2 new`. */
export const foldedWords = (lines: readonly NowLine[], earlier?: EarlierLook): string => {
  const isFiring = lines[0]?.kind === "watch" && lines[0].severity === "critical";
  const fresh = lines.filter((line) => earlier?.isNew(line)).length;
  const words = isFiring
    ? formatCountOf(lines.length, "more firing watch", "more firing watches")
    : `${formatCount(lines.length)} more like these`;
  return `${words}${fresh === 0 ? "" : `, ${formatCount(fresh)} new`}`;
};

/** Returns what the first sentence means at a glance: shape and tone. */
export const faceOf = (report: NowReport): readonly [shape: ShapeName, tone: string] => {
  const { lines, hosts, held_by } = report;
  if (untakenOf(report) > 0)
    return [
      "warning",
      lines.some((line) => !isHeld(line) && line.severity === "critical") ? "crit" : "warn",
    ];
  return lines.length > 0 || hosts === 0 || held_by ? ["info", "info"] : ["check", "ok"];
};

/** Reports whether and how much needs a person, in one sentence, and in a second one what others have taken. */
export const firstSentence = (report: NowReport, earlier?: EarlierLook): string => {
  const { lines, lines_other, hosts, held_by } = report;
  if (lines.length === 0 && hosts === 0) return "No host is enrolled yet.";
  if (lines.length === 0 && held_by) return "Nothing needs you so far.";
  if (lines.length === 0) return isQuiet(report) ? "Nothing needs you." : "Nothing new needs you.";
  const untaken = untakenOf(report);
  const taken = lines.length + lines_other - untaken;
  if (untaken === 0) return `Nothing needs you. ${countOf(taken, "thing is", "things are")} taken.`;
  const more = taken === 0 ? "" : ` ${countOf(taken, "more is", "more are")} taken.`;
  return `${countOf(untaken, "thing needs", "things need")} you${newWords(report, untaken, earlier)}.${more}`;
};

/** Reports whether no host needs attention: those that did yesterday too are no lines. */
const isQuiet = ({ strip }: NowReport): boolean =>
  !strip.some(({ name, present }) => name === "fleet" && present !== 0);

const newWords = ({ lines }: NowReport, untaken: number, earlier?: EarlierLook) => {
  const fresh = lines.filter((line) => !isHeld(line) && earlier?.isNew(line)).length;
  if (earlier === undefined || fresh === 0) return "";
  const words = countOf(fresh, "is new", "are new").toLowerCase();
  const which = fresh === untaken ? `${untaken === 1 ? "" : "all "}new` : words;
  return `, ${which} since you last looked (${earlier.ago} ago)`;
};

/** Returns how long ago core looked, which may be before the page asked (`asOf`, `seconds` ago). */
export const ageText = ({ generated_at }: NowReport, asOf: number, seconds = 0): string =>
  formatDuration(seconds + Math.max(0, asOf - Date.parse(generated_at)) / 1000);

/** Returns the title of the browser's tab: it counts what nobody has taken, if that is known now. */
export const tabTitle = (report: NowReport | undefined, isOld: boolean): string => {
  const count = report ? untakenOf(report) : 0;
  if (isOld) return "(?) Now";
  return count === 0 ? "Now" : `(${formatCount(count)}) Now`;
};

/** Returns a figure of the strip: `12`, `3.4 GiB`. */
export const figureText = (figure: number | null, unit: NowStrip["unit"]): string => {
  if (figure === null) return "Unknown";
  return unit === "bytes" ? formatBytes(figure) : formatCount(figure);
};

/** Returns who has taken a line, and whether that still means something: `ada@example.test, 03:12: network team is on it`. */
export const claimText = (
  { by, at, note, has_access: hasAccess }: NonNullable<NowLine["taken"]>,
  timeText: (at: string) => string,
): string => {
  const who = `${by}${hasAccess ? "" : " (has no access any more)"}`;
  return plainText(`${who}, ${timeText(at)}${note === null ? "" : `: ${note}`}`);
};

/** Returns the page as text, for the next person on call. */
export const handoverText = (
  report: NowReport,
  { origin, zone }: { origin: string; zone: TimeZone },
): string => {
  const at = Date.parse(report.generated_at);
  const timeText = (time: string) => formatTimestamp(time, zone);
  const linesOf = (line: NowLine, index: number) => [
    "",
    `${index + 1}. ${plainText(line.sentence)}`,
    `   ${line.severity}${line.since === null ? "" : `, since ${timeText(line.since)} (${formatDuration((at - Date.parse(line.since)) / 1000)})`}`,
    ...(line.evidence === null ? [] : [`   ${plainText(line.evidence)}`]),
    ...(line.taken === null ? [] : [`   Taken by ${claimText(line.taken, timeText)}`]),
    `   ${origin}${line.path}`,
  ];
  return [
    `Now, ${formatTimestamp(at, zone)}: ${firstSentence(report)}`,
    ...report.strip.map(({ label, present, unit }) => `${figureText(present, unit)} ${label}`),
    ...report.lines.flatMap(linesOf),
    ...(report.lines_other === 0 ? [] : ["", `And ${formatCount(report.lines_other)} more.`]),
    ...(report.silenced === undefined ? [] : ["", plainText(report.silenced)]),
    "",
    `${origin}/`,
  ].join("\n");
};
