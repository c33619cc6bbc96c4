import { expect, it } from "vitest";
import { fraction, pooledEntropy } from "#kit/entropy.ts";
import { comparedHostsMin } from "#proto/fleet-health/comparison.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { compareGroups } from "./compare-followed.ts";

const entropy = pooledEntropy(createSeededEntropy(), 65_536);
const chance = (probability: number) => fraction(entropy) < probability;
/** Around 1, skewed as the sizes of processes are. */
const spread = (width: number) =>
  Math.exp((fraction(entropy) + fraction(entropy) + fraction(entropy) - 1.5) * width);

interface Effect {
  /** Bytes of logs, as a part of those before. */
  logs?: number;
  memory?: number;
  silent?: number;
  losing?: number;
  stratum?: string;
}

/** A host of which nothing is known beforehand: it has its own size, and noise of its own in both times. */
const createHost = ({
  memory = 1,
  silent = 0,
  losing = 0,
  logs = 1,
  stratum = "linux",
}: Effect = {}) => {
  const rss = 8e7 * spread(0.8);
  const cpu = 0.02 * spread(1);
  const queue = 1e5 * spread(2);
  const window = (isAfter: boolean) => ({
    lostPerHour: isAfter && chance(0.02 + losing) ? 5 : 0,
    startsPerHour: chance(0.01) ? 1 : 0,
    queueBytes: queue * spread(1),
    rssBytes: rss * spread(0.2) * (isAfter ? memory : 1),
    cpuShare: cpu * spread(0.3),
  });
  const isSilent = chance(0.01 + silent);
  const bytes = 1e6 * spread(2);
  const envelopes = 1e3 * spread(2);
  const after = { bytes: bytes * logs * spread(0.2), envelopes: envelopes * spread(0.2) };
  const sent = { before: { logs: { bytes, envelopes } }, after: { logs: after } };
  return { stratum, isSilent, before: window(false), after: isSilent ? null : window(true), sent };
};
const createHosts = (count: number, effect?: Effect) =>
  Array.from({ length: count }, () => createHost(effect));
const resultOf = (comparison: ReturnType<typeof compareGroups>, measure: string) =>
  comparison.measures.find((result) => result.measure === measure);

it.each([20, 60, 200])(
  "of %i hosts without an effect ends with a verdict of one in at most 5 percent",
  (count) => {
    const rounds = 100;
    let effects = 0;
    for (let round = 0; round < rounds; round++) {
      const { verdict } = compareGroups(createHosts(count), createHosts(count * 3));
      if (verdict === "worse" || verdict === "better") effects += 1;
    }
    expect(effects / rounds).toBeLessThanOrEqual(0.05);
  },
);

it("says how much more or less hosts send, also nothing any more, which is no verdict", () => {
  const others = createHosts(400);
  const [more, none, few] = [1.5, 0, 1.5].map((logs, index) =>
    compareGroups(createHosts(index === 2 ? 10 : 150, { logs }), others),
  );
  expect(more?.volume).toMatchObject([{ signal: "logs", changed: expect.any(Number) }]);
  expect(more?.volume?.[0]?.difference?.value).toBeCloseTo(0.5, 1);
  expect(more?.volume?.[0]?.difference?.low).toBeGreaterThan(0.4);
  expect(more?.volume?.[0]?.envelopes?.value).toBeCloseTo(0, 1);
  expect(none?.volume?.[0]?.difference?.high).toBeLessThan(-0.9);
  expect(few?.volume).toMatchObject([{ signal: "logs", changed: 10, difference: null }]);
  expect(["same", "unclear"]).toContain(more?.verdict);
  const unknown = createHosts(40).map((host) => ({ ...host, sent: null }));
  expect(compareGroups(unknown, others).volume).toBeUndefined();
});

it("finds more memory, silence and losses, and says by how much", () => {
  const others = createHosts(400);
  const memory = resultOf(compareGroups(createHosts(150, { memory: 1.3 }), others), "memory");
  expect(memory).toMatchObject({ verdict: "worse", changed: expect.any(Number) });
  expect(memory?.difference?.low).toBeGreaterThan(0.2);
  expect(memory?.difference?.high).toBeLessThan(0.4);
  expect(
    resultOf(compareGroups(createHosts(150, { silent: 0.2 }), others), "silent")?.verdict,
  ).toBe("worse");
  const losing = compareGroups(createHosts(150, { losing: 0.2 }), others);
  expect([losing.verdict, resultOf(losing, "losing")?.verdict]).toEqual(["worse", "worse"]);
  expect(
    compareGroups(createHosts(400, { memory: 0.7 }), others).measures.map(({ verdict }) => verdict),
  ).toContain("better");
});

it("is no verdict with too few hosts in either group, also of a great effect", () => {
  const few = createHosts(comparedHostsMin - 1, { memory: 4, silent: 0.5 });
  const enough = createHosts(comparedHostsMin * 10);
  for (const comparison of [
    compareGroups(few, enough),
    compareGroups(enough, few),
    compareGroups([], []),
  ]) {
    expect(comparison.verdict).toBe("too_few");
    expect(comparison.measures.every(({ difference }) => difference === null)).toBe(true);
  }
});

it("does not count what happened to all hosts, or distinguished the groups before", () => {
  const slower = createHosts(200, { memory: 1.5 });
  expect(
    resultOf(compareGroups(slower, createHosts(400, { memory: 1.5 })), "memory")?.verdict,
  ).not.toBe("worse");
  const large = createHosts(200).map(({ before, after, ...host }) => ({
    ...host,
    before: before && { ...before, rssBytes: 3 * (before.rssBytes ?? 0) },
    after: after && { ...after, rssBytes: 3 * (after.rssBytes ?? 0) },
  }));
  expect(resultOf(compareGroups(large, createHosts(400)), "memory")?.verdict).not.toBe("worse");
});

it("compares only hosts of the same kind, equally many for each changed one", () => {
  const windows = { stratum: "windows", memory: 1.5 };
  // Windows grows on both sides, and has more of the changed hosts.
  const changed = [...createHosts(80, windows), ...createHosts(40)];
  const others = [
    ...createHosts(100, windows),
    ...createHosts(600),
    ...createHosts(90, { stratum: "darwin" }),
  ];
  const comparison = compareGroups(changed, others);
  expect(comparison).toMatchObject({ changed: 120, control: 120, unmatched: 0 });
  expect(resultOf(comparison, "memory")?.verdict).not.toBe("worse");
  expect(compareGroups(createHosts(30, { stratum: "plan9" }), others)).toMatchObject({
    verdict: "too_few",
    changed: 0,
    unmatched: 30,
  });
});

it("leaves a host out of what it did not report", () => {
  const silent = createHosts(40).map((host) => ({ ...host, isSilent: true, after: null }));
  const older = createHosts(40).map((host) => ({
    ...host,
    after: host.after && { ...host.after, rssBytes: null },
  }));
  const comparison = compareGroups([...silent, ...older], createHosts(400));
  expect(resultOf(comparison, "memory")).toMatchObject({
    verdict: "too_few",
    changed: 0,
    difference: null,
  });
  expect(resultOf(comparison, "silent")).toMatchObject({ verdict: "worse", changed: 80 });
});
