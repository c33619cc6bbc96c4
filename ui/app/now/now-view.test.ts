import { expect, it } from "vitest";
import type { NowLine, NowReport } from "#proto/now/report.ts";
import { preparedFleets } from "#tests/support/prepared-fleets.ts";
import { nextLooks } from "./last-look.ts";
import {
  ageText,
  claimText,
  type EarlierLook,
  faceOf,
  firstSentence,
  foldedWords,
  groupLines,
  handoverText,
  tabTitle,
} from "./now-view.ts";

const fleet = (name: string): NowReport => {
  const report = preparedFleets[name];
  if (report === undefined) throw new Error(`no fleet ${name}`);
  return report;
};

it.each([
  ["calm", "Nothing needs you.", "ok", "Now"],
  ["one-rack-out", "One thing needs you. One more is taken.", "warn", "(1) Now"],
  ["bad-config", "One thing needs you.", "crit", "(1) Now"],
  ["growing-queue", "One thing needs you.", "crit", "(1) Now"],
  ["ill-core", "One thing needs you.", "crit", "(1) Now"],
  ["incomplete-hour", "One thing needs you.", "warn", "(1) Now"],
  ["forty-watches", "43 things need you.", "crit", "(43) Now"],
  ["nothing-enrolled", "No host is enrolled yet.", "info", "Now"],
])("the fleet %s says: %s", (name, sentence, tone, title) => {
  const report = fleet(name);
  expect(firstSentence(report)).toBe(sentence);
  expect(faceOf(report)[1]).toBe(tone);
  expect(tabTitle(report, false)).toBe(title);
});

/** A look seven hours ago, since which the first `count` lines are new. */
const since = (report: NowReport, count: number): EarlierLook => {
  const fresh = new Set(report.lines.slice(0, count));
  return { ago: "7 h", isNew: (line) => fresh.has(line) };
};

const takenBy = (line: NowLine): NowLine => ({
  ...line,
  taken: { id: line.key, by: "ada", at: "2026-01-15T03:12:00.000Z", note: null, has_access: true },
});

it("V4: the first sentence counts what is new since the person last looked, and what others have taken", () => {
  const report = fleet("forty-watches");
  const three = { ...report, lines: report.lines.slice(0, 3), lines_other: 0 };
  const words = (count: number, of = three) => firstSentence(of, since(of, count));
  expect(words(0)).toBe("Three things need you.");
  expect(words(1)).toBe("Three things need you, one is new since you last looked (7 h ago).");
  expect(words(2)).toBe("Three things need you, two are new since you last looked (7 h ago).");
  expect(words(3)).toBe("Three things need you, all new since you last looked (7 h ago).");
  const one = { ...three, lines: three.lines.slice(0, 1) };
  expect(words(1, one)).toBe("One thing needs you, new since you last looked (7 h ago).");
  const [first, ...others] = three.lines.map(takenBy);
  if (first === undefined) throw new Error("no line");
  expect(firstSentence({ ...three, lines: [first] })).toBe(
    "Nothing needs you. One thing is taken.",
  );
  const all = { ...three, lines: [first, ...others] };
  expect(firstSentence(all)).toBe("Nothing needs you. Three things are taken.");
  expect(words(3, all)).toBe("Nothing needs you. Three things are taken.");
  expect([faceOf(all)[1], tabTitle(all, false)]).toEqual(["info", "Now"]);
  // Nobody works on a line whose person may not sign in any more.
  const left = { ...first, taken: first.taken && { ...first.taken, has_access: false } };
  expect(firstSentence({ ...three, lines: [left] })).toBe("One thing needs you.");
  expect(left.taken && claimText(left.taken, () => "03:12")).toBe(
    "ada (has no access any more), 03:12",
  );
});

it("does not say that nothing needs anybody beside hosts that need attention as they did yesterday", () => {
  const calm = fleet("calm");
  const two = calm.strip.map((figure) => ({ ...figure, present: 2 }));
  expect(firstSentence({ ...calm, strip: two })).toBe("Nothing new needs you.");
});

it("says neither that nothing is wrong while core itself was away, nor how much there is by an old report", () => {
  const held_by = { began_at: "2026-01-15T03:00:00.000Z", ended_at: null, counted_from: null };
  const away = { ...fleet("calm"), held_by };
  expect([firstSentence(away), faceOf(away)[1]]).toEqual(["Nothing needs you so far.", "info"]);
  expect(tabTitle(fleet("forty-watches"), true)).toBe("(?) Now");
  expect(tabTitle(undefined, false)).toBe("Now");
});

it("V4: the age counts from when core looked, not from when the page asked for what core had kept", () => {
  const report = fleet("calm");
  const asOf = Date.parse(report.generated_at) + 28_000;
  expect([ageText(report, asOf, 5), ageText(report, asOf - 29_000, 5)]).toEqual(["33 s", "5 s"]);
});

it("a handover has the sentence, the figures and each line with its evidence, who has it, and its address", () => {
  const text = handoverText(fleet("one-rack-out"), { origin: "https://fleet.test", zone: "utc" });
  expect(text).toBe(`Now, 2026-01-15 03:12:00 UTC: One thing needs you. One more is taken.
44 hosts need attention, 3 a day ago
324 MiB stored in 15 min
0 changes in 15 min

1. 3 hosts have a queue at risk, 3 more than an hour ago.
   warning, since 2026-01-15 02:24:00 UTC (48 min)
   https://fleet.test/fleet?state=queue_at_risk

2. 41 hosts match “stale hosts”, which allows 5.
   critical, since 2026-01-15 03:00:00 UTC (12 min)
   41 of them have the label rack:r12, and no other host.
   Taken by ada@example.test, 2026-01-15 03:08:00 UTC: network team is on it
   https://fleet.test/fleet?state=stale

https://fleet.test/`);
  expect(handoverText(fleet("forty-watches"), { origin: "", zone: "utc" })).toContain(
    "And 3 more.",
  );
});

it("groups lines of a kind that are as urgent and as taken, and says what is folded, and how many are new", () => {
  const [first, ...others] = fleet("forty-watches").lines;
  if (first === undefined) throw new Error("no line");
  const hours: NowLine = { ...first, kind: "hours" };
  const groups = [...groupLines([...others, takenBy(first), hours]).values()];
  expect(groups.map(({ length }) => length)).toEqual([39, 1, 1]);
  const folded = groups[0]?.slice(5) ?? [];
  expect(foldedWords(folded)).toBe("34 more firing watches");
  expect(foldedWords(folded.slice(0, 1), since(fleet("forty-watches"), 7))).toBe(
    "1 more firing watch, 1 new",
  );
  expect(foldedWords([hours, hours])).toBe("2 more like these");
});

it("a person's look before is the last one that they came back from after ten minutes", () => {
  const minute = 60_000;
  const seen = (minutes: number, ...lines: string[]) => ({ at: minutes * minute, lines });
  const first = nextLooks(undefined, seen(0, "a"));
  expect(first).toEqual({ last: seen(0, "a") });
  const soon = nextLooks(first, seen(10, "a", "b"));
  expect(soon).toEqual({ last: seen(10, "a", "b") });
  const back = nextLooks(soon, seen(430, "c"));
  expect(back).toEqual({ last: seen(430, "c"), before: seen(10, "a", "b") });
  expect(nextLooks(back, seen(435, "c", "d")).before).toEqual(seen(10, "a", "b"));
});
