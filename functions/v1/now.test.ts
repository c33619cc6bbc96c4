import { expect, it } from "vitest";
import { evaluateWatches } from "#functions/domain/watch/run-watches.ts";
import type { NowReport } from "#proto/now/report.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { admin, auditor, clock, core } = test;
await test.seedFleet(40);

/** Returns the number of rows that the path of a line opens. */
const rowsOf = async (path: string) => {
  const { search } = new URL(path, "https://web.test");
  return (await test.health(`limit=1000&${search.slice(1)}`)).items.length;
};

it("has a line for each watch that fires, whose count is the rows that its path opens", {
  tags: "workerd",
}, async () => {
  expect((await auditor.read<NowReport>("/v1/now")).lines).toEqual([]);
  const { body } = await admin.post("/v1/collector/watches", {
    name: "stale hosts",
    filter: "state:stale",
    more_than: 1,
    for_seconds: 0,
  });
  await clock.advance(10_000);
  await evaluateWatches(core);
  const { lines } = await auditor.read<NowReport>("/v1/now");
  const count = await rowsOf("/fleet?state=stale");
  expect(lines).toMatchObject([
    {
      key: `watch:${body.id}`,
      severity: "critical",
      count,
      sentence: `${count} hosts match “stale hosts”, which allows 1.`,
      path: "/fleet?state=stale",
      taken: null,
    },
  ]);
});
