import { describe, expect, it } from "vitest";
import { isSlow } from "../support/is-slow.ts";
import { accountLaws } from "./account-laws.ts";
import { laws } from "./oracle.ts";
import { drawPlan } from "./plan.ts";
import { plants } from "./plants.ts";
import { shrink } from "./shrink.ts";
import { simulate } from "./simulate.ts";
import { commandOf, reportOf } from "./story.ts";

const seedsOfTest = isSlow ? 10 : 4;

describe("a simulation", () => {
  it.each([1, 11])("breaks no law in histories from seed %i on", async (first) => {
    for (let seed = first; seed < first + seedsOfTest; seed++) {
      const outcome = await simulate({ seed });
      if (outcome.breaches.length > 0) throw new Error(reportOf(await shrink(outcome)).join("\n"));
      expect(outcome.stored).toBeGreaterThan(0);
    }
  });

  it("gives the same history for the same seed, and another one for another", async () => {
    const first = await simulate({ seed: 4 });
    const again = await simulate({ seed: 4 });
    expect(again).toEqual(first);
    expect((await simulate({ seed: 5 })).digest).not.toBe(first.digest);
    expect((await simulate({ seed: 4, variation: 1 })).digest).not.toBe(first.digest);
  });

  it("stores no record of a call that is sent again in the place of a copy's", async () => {
    const { breaches, notes } = await simulate(
      { seed: 2, faults: [] },
      {},
      async ({ world, hosts, cores, ...lab }) => {
        const [host] = hosts;
        const [core] = cores;
        if (host === undefined || core === undefined) throw new Error("the lab is empty");
        const pass = (ms: number) => world.runUntil(world.now() + ms);
        // The copy's Open waits, and behind it what both have sent under one sequence.
        lab.server.process.suspendedUntil = world.now() + 5_000;
        lab.copy(host);
        await pass(1_000);
        void host.offer();
        void hosts.at(-1)?.offer();
        await pass(1_000);
        lab.network.repeat(({ hostId }) => hostId === host.hostId, core);
        await pass(30_000);
      },
    );
    expect(breaches).toEqual([]);
    expect(notes.filter(({ text }) => text.includes("queue.forked"))).not.toEqual([]);
  });

  it("stores telemetry behind an account that core never answers, and finds that it waits for ever", async () => {
    const lawsOf = async (name: string) =>
      (await simulate({ seed: 2 }, plants[name])).breaches.map((breach) => breach.law);
    const unanswered = await lawsOf("core never answers an account");
    expect(unanswered).toEqual(
      expect.arrayContaining([accountLaws.accounted, accountLaws.arrives]),
    );
    expect(unanswered).not.toContain(laws.goesOn);
    expect(await lawsOf("telemetry waits for an account for ever")).toContain(laws.goesOn);
  });
});

it("a history that breaks a law shrinks to what breaks the same law, and is told with the line that runs it again", async () => {
  const name = "core opens a queue one behind its cursor";
  let seed = 1;
  for (; drawPlan({ seed }).hosts < 3 || drawPlan({ seed }).faults.length < 5; seed++);
  const broken = await simulate({ seed }, plants[name]);
  const law = broken.breaches[0]?.law;
  const small = await shrink(broken, plants[name]);
  expect(small.breaches.map((breach) => breach.law)).toContain(law);
  expect(small.injected.length).toBeLessThan(2);
  expect([small.course.hosts, small.course.cores ?? 1]).toEqual([1, 1]);

  const [command, ...story] = reportOf(small, name);
  expect(command).toContain(commandOf(small.course, name));
  expect(story.some((line) => line.includes(`BROKEN  ${law}`))).toBe(true);
  expect(story.some((line) => line.includes("opens queue"))).toBe(true);
  expect(story.length).toBeLessThan(small.notes.length + 10);
  expect(await simulate(small.course, plants[name])).toEqual(small);
});
