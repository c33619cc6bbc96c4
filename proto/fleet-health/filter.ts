/** The longest text that each of the report's filters takes, in characters. */
export const filterCharactersMax = {
  q: 256,
  device: 128,
  identity: 2048,
  platform: 65,
  version: 64,
  not_version: 64,
} as const;

/** The longest time that a filter takes: ten years. */
export const filterSecondsMax = 315_360_000;

/** What can be asked of forwarding. `never`: heartbeats, and has never forwarded; `ever`: has forwarded. */
export const forwardings = ["never", "ever"] as const;

/** One of `forwardings`. */
export type Forwarding = (typeof forwardings)[number];
