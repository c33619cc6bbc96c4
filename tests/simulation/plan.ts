/** What a seed decides before anything happens, and what of it a history leaves out. */

import { createRandom } from "../fakes/entropy.ts";
import { bucketFaults, bucketLosses } from "./bucket-faults.ts";
import { exportFaults } from "./export-faults.ts";
import {
  budgetFault,
  faults,
  forgottenFault,
  olderFault,
  restoringFaults,
  unclaimedFault,
} from "./faults.ts";
import { hourFaults } from "./hour-faults.ts";
import { createChance } from "./world.ts";

/** What a seed decides before anything happens. */
export interface Plan {
  hosts: number;
  cores: number;
  exporters: number;
  /** How often a source appends, on average. */
  appendMs: number;
  /** The limit of a queue: a small one is full within an outage. */
  queueBytesMax: number;
  /** The largest frame that cores accept. */
  frameBytesMax: number;
  /** Full queues drop what they are offered. */
  dropsWhenFull: boolean;
  /** The queues are the product's own, on files that can be damaged. */
  hasFiles: boolean;
  /** Two collectors have the identity of the first host, each with a queue of its own. */
  isShared: boolean;
  /** Where cores store telemetry: of both, the first one in a bucket. */
  store: "rows" | "objects" | "both";
  /** When sources end. */
  untilMs: number;
  faults: readonly { at: number; name: string }[];
}

/** A seed, and what of its plan is left out or drawn differently: a history to run again. */
export interface Course {
  seed: number;
  /** The faults to inject, by their place in the plan. */
  faults?: readonly number[] | undefined;
  hosts?: number | undefined;
  cores?: number | undefined;
  untilMs?: number | undefined;
  /** Draws everything but the plan anew. */
  variation?: number | undefined;
}

/** When the last fault begins. */
export const faultsUntilMs = 40_000;
/** What some cores accept as a frame at most: more than an account has, and less than the largest record. */
export const smallFrameBytes = 2_400;
/** In how many histories queues are on files: these take longer. */
const filesShare = 0.1;

/** In how many histories a core stores in a bucket. */
const objectsShare = 0.3;

/** In how many histories two collectors have one identity. */
const sharedShare = 0.15;

/** What may happen in a history. */
export const allFaults: typeof faults = {
  ...faults,
  ...exportFaults,
  ...hourFaults,
  ...bucketFaults,
  ...bucketLosses,
};

const drawnApart: readonly string[] = [
  budgetFault,
  olderFault,
  forgottenFault,
  unclaimedFault,
  ...Object.keys(hourFaults),
  ...Object.keys(bucketFaults),
  ...Object.keys(bucketLosses),
];

/** Draws from a seed apart from the plan's other parts. */
const chanceApart = (seed: number, salt: number) => createChance(createRandom(seed ^ salt));

/** Draws the times of faults in a share of all histories, whatever else happens in them. */
const drawApart = (
  seed: number,
  salt: number,
  names: readonly string[],
  share = 1 / 3,
): Plan["faults"] => {
  const chance = chanceApart(seed, salt);
  if (!chance.isLikely(share)) return [];
  return Array.from({ length: chance.integer(1, 3) }, () => ({
    at: chance.integer(1_000, faultsUntilMs),
    name: chance.pick(names),
  }));
};

const drawBucketFaults = (seed: number): Plan["faults"] => [
  ...drawApart(seed, 0x6a09e667, Object.keys(bucketFaults), 0.9),
  ...drawApart(seed, 0x1f83d9ab, restoringFaults, 1 / 2),
  ...drawApart(seed, 0x5be0cd19, Object.keys(bucketLosses), 1 / 8),
  ...drawApart(seed, 0x428a2f98, [unclaimedFault], 1 / 10),
];

/** Draws the plan of a seed. */
export const drawPlan = ({ seed }: Pick<Course, "seed">): Plan => {
  const chance = createChance(createRandom(seed ^ 0x5bd1e995));
  const inObjects = chanceApart(seed, 0x1b873593);
  const store = inObjects.isLikely(objectsShare)
    ? inObjects.pick(["objects", "objects", "both"] as const)
    : "rows";
  return {
    store,
    hosts: chance.integer(1, 3),
    cores: chance.integer(1, 2),
    exporters: chance.integer(1, 2),
    appendMs: chance.integer(300, 2_000),
    queueBytesMax: chance.pick([3_000, 8_000, 64 * 1024]),
    untilMs: chance.integer(faultsUntilMs / 2, faultsUntilMs + 20_000),
    faults: [
      ...Array.from({ length: chance.integer(1, 12) }, () => ({
        at: chance.integer(1_000, faultsUntilMs),
        name: chance.pick(Object.keys(allFaults).filter((name) => !drawnApart.includes(name))),
      })).toSorted((a, b) => a.at - b.at),
      ...drawApart(seed, 0x3c6ef372, [budgetFault]),
      ...drawApart(seed, 0x2545f491, Object.keys(hourFaults), 1 / 2),
      ...drawApart(seed, 0x2c1b3c6d, [olderFault], 1 / 10),
      ...drawApart(seed, 0x510e527f, [forgottenFault], 1 / 10),
      ...(store === "rows" ? [] : drawBucketFaults(seed)),
    ],
    dropsWhenFull: chance.isLikely(0.3),
    hasFiles: chance.isLikely(filesShare),
    isShared: chanceApart(seed, 0x27d4eb2f).isLikely(sharedShare),
    frameBytesMax: chanceApart(seed, 0x165667b1).pick([smallFrameBytes, 2 ** 20, 2 ** 20]),
  };
};
