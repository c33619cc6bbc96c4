import { describe, expect, it } from "vitest";
import { atMost } from "../support/goals.ts";
import { checkGoals, measurePair, type PeerFigures, type Side } from "./pair.ts";

const side = (name: string, kind: Side["kind"], samples: PeerFigures[], order: string[] = []) => {
  const left = [...samples];
  return {
    name,
    kind,
    guarantees: "none",
    measure: async () => {
      order.push(name);
      return left.shift() ?? {};
    },
  };
};
const cpu = (...values: number[]) => values.map((value) => ({ cpu_ms: value }));

describe("a pair", () => {
  it("alternates its sides, each once in a round", async () => {
    const order: string[] = [];
    await measurePair(
      { sides: [side("we", "ours", [], order), side("they", "peer", [], order)] },
      3,
    );
    expect(order).toEqual(["we", "they", "we", "they", "we", "they"]);
  });

  it("reports medians, and the median of the quotients of each round", async () => {
    // The machine is twice as slow in the second round: the quotients do not change.
    const sides = [side("we", "ours", cpu(2, 4, 2.2)), side("they", "peer", cpu(4, 8, 4))];
    const [ours, theirs] = await measurePair({ sides }, 3);
    expect(ours?.figures).toEqual({ cpu_ms: 2.2 });
    expect(ours?.oursDividedBy).toEqual({});
    expect(theirs?.figures).toEqual({ cpu_ms: 4 });
    expect(theirs?.oursDividedBy).toEqual({ cpu_ms: 0.5 });
    expect(theirs?.spread).toBeCloseTo(0.1);
  });

  it("compares only figures that both sides have", async () => {
    const sides = [
      side("we", "ours", [{ cpu_us: 3, per_second: 10, p99_ms: 5 }]),
      side("they", "peer", [{ cpu_us: 6, per_second: 0, disk_mb: 1 }]),
    ];
    expect((await measurePair({ sides }, 1))[1]?.oursDividedBy).toEqual({ cpu_us: 0.5 });
  });
});

it("a kill follows the measured rounds, once for each side that can be killed", async () => {
  const order: string[] = [];
  const killed = { acknowledged: 10, lost: 3 };
  const kill = async () => {
    order.push("kill");
    return killed;
  };
  const they = { ...side("they", "peer", [], order), kill };
  const results = await measurePair({ sides: [side("we", "ours", [], order), they] }, 2);
  expect(order).toEqual(["we", "they", "we", "they", "kill"]);
  expect(results.map((result) => result.killed)).toEqual([null, killed]);
});

describe("the goals of a pair", () => {
  const results = measurePair(
    { sides: [side("we", "ours", cpu(3)), side("they", "peer", cpu(2))] },
    1,
  );

  it("are met within their bounds", async () => {
    const of = async (value: number, peer?: string) =>
      checkGoals(
        [
          {
            ...(peer === undefined ? {} : { peer }),
            figure: "cpu_ms",
            ...atMost(value, "ms", "CPU"),
          },
        ],
        await results,
      ).map(({ met }) => met);
    expect(await of(1.5, "they")).toEqual([true]);
    expect(await of(1.4, "they")).toEqual([false]);
    expect(await of(3)).toEqual([true]);
    expect(await of(2.9)).toEqual([false]);
  });

  it("are not judged against a peer that was not measured", async () => {
    const goals = checkGoals(
      [{ peer: "another", figure: "cpu_ms", ...atMost(9, "×", "CPU") }],
      await results,
    );
    expect(goals).toMatchObject([{ measured: null, met: "not judged" }]);
  });
});
