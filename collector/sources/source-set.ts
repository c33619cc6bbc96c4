import type { Source, SourceSettings } from "./source.ts";

/** A source could not start. The message names it and the reason. */
export class SourceStartError extends Error {
  override readonly name = "SourceStartError";
}

/** The running sources of a collector. */
export interface SourceSet {
  /**
   * Runs exactly the sources of `configs`. A source with an unchanged config keeps running. The others stop before new ones start,
   * which may use their addresses. If one cannot start, restarts the previous sources as far as possible and throws
   * `SourceStartError`. With `retries`, an address that cannot be used does not count as that.
   */
  apply(configs: readonly SourceSettings[], options: { retries: boolean }): Promise<void>;
  running(): readonly Source[];
  /** Stops all sources. Never rejects. */
  stop(): Promise<void>;
}

interface Running {
  readonly key: string;
  readonly config: SourceSettings;
  readonly source: Source;
}

/** Creates an empty set. `create` creates a source from its config. */
export const createSourceSet = (create: (config: SourceSettings) => Promise<Source>): SourceSet => {
  let running: Running[] = [];

  const start = async (config: SourceSettings, retries: boolean): Promise<void> => {
    const source = await create(config);
    running.push({ key: JSON.stringify(config), config, source });
    try {
      await source.start({ retries });
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : "unknown reason";
      throw new SourceStartError(`source ${source.name} cannot start: ${reason}`, { cause });
    }
  };

  const stopAll = async (stopping: readonly Running[]): Promise<void> => {
    running = running.filter((entry) => !stopping.includes(entry));
    await Promise.allSettled(stopping.map(({ source }) => source.stop()));
  };

  /** Returns the `configs` that do not run, and the running sources that are not among them. */
  const compare = (configs: readonly SourceSettings[]) => {
    const surplus = [...running];
    const missing = configs.filter((config) => {
      const index = surplus.findIndex(({ key }) => key === JSON.stringify(config));
      if (index !== -1) surplus.splice(index, 1);
      return index === -1;
    });
    return { missing, surplus };
  };

  return {
    apply: async (configs, { retries }) => {
      const before = running.map(({ config }) => config);
      const { missing, surplus } = compare(configs);
      await stopAll(surplus);
      try {
        for (const config of missing) await start(config, retries);
      } catch (error) {
        const changes = compare(before);
        await stopAll(changes.surplus);
        for (const config of changes.missing) await start(config, true).catch(() => undefined);
        throw error;
      }
    },
    running: () => running.map(({ source }) => source),
    stop: () => stopAll(running),
  };
};
