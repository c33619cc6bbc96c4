import { readFile } from "node:fs/promises";
import * as v from "valibot";
import type { Entropy } from "../../kit/entropy.ts";
import { writeDurably } from "../files/private-files.ts";

const Sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));

const DesiredState = v.object({
  /** The assignment whose text was applied and proved itself. */
  applied: v.nullable(v.string()),
  /** Applied and not yet proven; `starts` counts how often the collector was started with it. */
  trial: v.nullable(v.object({ config_id: v.string(), config_hash: Sha256, starts: v.number() })),
  /** Not applied, or rolled back, and why; it is not tried again. */
  refused: v.nullable(v.object({ config_id: v.string(), reasons: v.array(v.string()) })),
  /** Of the file that is kept as last known good. */
  last_known_good_hash: v.nullable(Sha256),
});

/** What a collector remembers of configs from core, across restarts. */
export type DesiredState = v.InferOutput<typeof DesiredState>;

const fresh: DesiredState = { applied: null, trial: null, refused: null, last_known_good_hash: null };

/** Names of the files beside a config: the state, the config before, and a config that is being examined. */
export const desiredFiles = (configPath: string) => ({
  state: `${configPath}.desired-state`,
  lastKnownGood: `${configPath}.last-known-good`,
  candidate: `${configPath}.candidate`,
});

/** The state beside the config at `configPath`; a missing or damaged one is as if nothing had ever come from core. */
export const readDesiredState = async (configPath: string): Promise<DesiredState> => {
  try {
    return v.parse(DesiredState, JSON.parse(await readFile(desiredFiles(configPath).state, "utf8")));
  } catch {
    return fresh;
  }
};

/** Writes the state durably. */
export const writeDesiredState = (configPath: string, state: DesiredState, env: { entropy: Entropy }): Promise<void> =>
  writeDurably(desiredFiles(configPath).state, `${JSON.stringify(state, null, 2)}\n`, env);
