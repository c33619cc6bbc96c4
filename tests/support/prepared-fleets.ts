import type { NowLine, NowReport, NowStrip } from "#proto/now/report.ts";

const at = "2026-01-15T03:12:00.000Z";

const minutesAgo = (minutes: number) => new Date(Date.parse(at) - minutes * 60_000).toISOString();

/** A critical line that began twelve minutes ago. */
const line = (of: Partial<NowLine> & Pick<NowLine, "key" | "kind" | "sentence">): NowLine => ({
  severity: "critical",
  since: minutesAgo(12),
  count: 1,
  evidence: null,
  path: "/fleet",
  taken: null,
  ...of,
});

/** 96 figures around `usual`, the last of which are `last`. */
const points = (usual: number, last: readonly number[] = []): number[] =>
  Array.from({ length: 96 }, (_, index) => {
    const wave = Math.sin((index / 96) * 2 * Math.PI) / 4 + ((index * 7) % 5) / 20;
    return last[index - (96 - last.length)] ?? Math.round(usual * (1 + wave));
  });

const figures = (fleet: number[], data: number[], changes: number[]): NowStrip[] => {
  const common = { step_seconds: 900, until: "2026-01-15T03:00:00.000Z" };
  const present = (of: number[]) => ({ points: of, present: of.at(-1) ?? null });
  return [
    {
      name: "fleet",
      label: "hosts need attention, 3 a day ago",
      unit: "hosts",
      path: "/fleet?attention=needed",
      ...present(fleet),
      ...common,
    },
    {
      name: "data",
      label: "stored in 15 min",
      unit: "bytes",
      path: "/data/volume",
      ...present(data),
      ...common,
    },
    {
      name: "changes",
      label: "changes in 15 min",
      unit: "changes",
      path: "/changes/audit",
      ...present(changes),
      ...common,
    },
  ];
};

const usual = figures(points(3, [2]), points(4e8), points(2, [0]));

const report = (lines: NowLine[], of: Partial<NowReport> = {}): NowReport => ({
  generated_at: at,
  lines,
  lines_other: 0,
  strip: usual,
  hosts: 312,
  ...of,
});

const rack = "41 hosts match “stale hosts”, which allows 5.";
const taken = {
  id: "0192f000-0000-7000-8000-000000000001",
  by: "ada@example.test",
  at: minutesAgo(4),
  note: "network team is on it",
  has_access: true,
};

/** Fleets that *Now* must make plain within three seconds, each as core reports it. */
export const preparedFleets: Readonly<Record<string, NowReport>> = {
  calm: report([], { strip: figures(points(1, [0]), points(4e8), points(2, [0])) }),
  "one-rack-out": report(
    [
      line({
        key: "state:queue_at_risk",
        kind: "state",
        severity: "warning",
        count: 3,
        since: minutesAgo(48),
        sentence: "3 hosts have a queue at risk, 3 more than an hour ago.",
        path: "/fleet?state=queue_at_risk",
      }),
      line({
        key: "watch:0192f000-0000-7000-8000-0000000000a1",
        kind: "watch",
        count: 41,
        sentence: rack,
        evidence: "41 of them have the label rack:r12, and no other host.",
        path: "/fleet?state=stale",
        taken,
      }),
    ],
    { strip: figures(points(3, [3, 44, 44]), points(4e8, [3.4e8]), points(2, [0])) },
  ),
  "bad-config": report(
    [
      line({
        key: "rollout:0192f000-0000-7000-8000-0000000000b1",
        kind: "rollout",
        count: 31,
        sentence: "The rollout “otlp to eu-2” paused itself: 31 of 60 hosts rejected its config.",
        evidence: "exporters: `eu-2` is not defined.",
        path: "/changes/rollouts/0192f000-0000-7000-8000-0000000000b1",
      }),
    ],
    { strip: figures(points(3, [33, 34]), points(4e8), points(2, [64, 1])) },
  ),
  "growing-queue": report([
    line({
      key: "ahead:queues",
      kind: "ahead",
      count: 4,
      since: null,
      sentence: "4 hosts lose data within 72 h if their queues go on growing.",
      evidence: "edge-117 is first, in 5 h 20 min.",
      path: "/fleet?fills=72h",
    }),
  ]),
  "ill-core": report([
    line({
      key: "system:database",
      kind: "system",
      count: null,
      since: minutesAgo(3),
      sentence: "The database has not answered core vm-2 for 3 min.",
      evidence: "Core vm-1 reaches it.",
      path: "/system",
    }),
  ]),
  "incomplete-hour": report([
    line({
      key: "hours:2026-01-15T01:00:00.000Z",
      kind: "hours",
      severity: "warning",
      count: 2,
      since: minutesAgo(72),
      sentence: "Data of 2 hosts is incomplete from 2026-01-15 01:00 to 02:00 UTC.",
      evidence: "edge-31 is short of 1,204 records at 01:00 UTC.",
      path: "/data/completeness?from=7d",
    }),
  ]),
  "forty-watches": report(
    Array.from({ length: 40 }, (_, index) =>
      line({
        key: `watch:0192f000-0000-7000-8000-${String(index).padStart(12, "0")}`,
        kind: "watch",
        count: 400 - index,
        since: minutesAgo(60 - index),
        sentence: `${400 - index} hosts match “${["שרת ראשי", "🔥 disks", "x".repeat(120), "stale in"][index % 4]} ${index + 1}”, which allows none.`,
        evidence: index % 3 === 0 ? "All of them run version 1.9.0, and 12 other hosts." : null,
        path: "/fleet?state=stale",
      }),
    ),
    { lines_other: 3, strip: figures(points(3, [400]), points(4e8, [2e8]), points(2, [3])) },
  ),
  "nothing-enrolled": report([], {
    hosts: 0,
    strip: figures([], [], []).map((figure) => ({ ...figure, present: null })),
  }),
};
