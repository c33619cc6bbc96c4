import { expect, it } from "vitest";
import type { LostDisk } from "./copied-hosts.ts";
import { type DiscardedQueues, judge, type StoredQueues } from "./stored-queues.ts";

const hostId = "https://fleet.chaos/d/e";
const databaseOf = (names: readonly string[], gaps: StoredQueues["gaps"] = []) => ({
  places: new Map(names.map((name, index) => [name, [{ queueId: "q", sequence: index + 1 }]])),
  rows: names.length,
  disordered: 0,
  gaps,
  forks: new Map(),
});
const discardedAt = (at: number, names: readonly string[]) => ({
  ...databaseOf(names),
  discardedAt: at,
});
const texts = ["image 1", "run 1", "run 2"];
const judgeLoss = (
  lostDisks: readonly LostDisk[],
  discarded: readonly DiscardedQueues[],
  { gaps, owed = texts }: { gaps?: StoredQueues["gaps"]; owed?: readonly string[] } = {},
) =>
  judge(databaseOf(["image 1"], gaps), discarded, [
    { hostId, owed: new Set(owed), forked: new Set(), isCopied: true, lostDisks },
  ]);
/** A disk that was opened at 100, was replaced, and whose image was opened at 200. */
const disk = { texts: new Set(["run 1", "run 2"]), openedAt: 100, imageOpenedAt: 200 };

it("counts apart what a disk and a database alone knew that were replaced at once", () => {
  expect(judgeLoss([disk], [discardedAt(150, texts)])).toMatchObject({
    missing: 0,
    lostWithBoth: 2,
    lostReported: 0,
  });
});

it.each<[string, LostDisk[], DiscardedQueues[]]>([
  ["no disk was replaced", [], [discardedAt(150, texts)]],
  ["no database was discarded", [disk], []],
  ["the discarded database did not have it", [disk], [discardedAt(150, ["image 1"])]],
  ["the disk met the restored database", [disk], [discardedAt(99, texts)]],
  ["the image met the discarded database", [disk], [discardedAt(201, texts)]],
  ["the image has it", [{ ...disk, texts: new Set() }], [discardedAt(150, texts)]],
])("counts as missing what something that is left knows: %s", (_, disks, discarded) => {
  expect(judgeLoss(disks, discarded)).toMatchObject({ missing: 2, lostWithBoth: 0 });
});

it("counts as missing what another host lost, and as reported what core reports", () => {
  const owed = [...texts, "other 1"];
  const gaps = [{ queueId: "q", from: 2, through: 2 }];
  expect(judgeLoss([disk], [discardedAt(150, owed)], { gaps, owed })).toMatchObject({
    missing: 1,
    lostWithBoth: 1,
    lostReported: 1,
  });
});
