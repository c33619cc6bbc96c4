import type { SourceConfig } from "../../proto/collector-config/parse.ts";
import type { Source } from "./source.ts";

/** A source could not start; the message says which and why. */
export class SourceStartError extends Error {
  override readonly name = "SourceStartError";
}

/** The running sources of a collector. */
export interface SourceSet {
  /**
   * Runs exactly the sources of `configs`. One that runs with the same config is left alone; those to stop have stopped before
   * others start, which may want their addresses. If one cannot start, the sources of before run again, as far as they can, and
   * `SourceStartError` is thrown.
   */
  apply(configs: readonly SourceConfig[]): Promise<void>;
  running(): readonly Source[];
  /** Stops all, and does not throw. */
  stop(): Promise<void>;
}

interface Running {
  readonly key: string;
  readonly config: SourceConfig;
  readonly source: Source;
}

/** A set without sources; `create` makes one from its config. */
export const createSourceSet = (create: (config: SourceConfig) => Source): SourceSet => {
  let running: Running[] = [];

  const start = async (config: SourceConfig): Promise<void> => {
    const source = create(config);
    running.push({ key: JSON.stringify(config), config, source });
    try {
      await source.start();
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : "unknown reason";
      throw new SourceStartError(`source ${source.name} cannot start: ${reason}`, { cause });
    }
  };

  const stopAll = async (stopping: readonly Running[]): Promise<void> => {
    running = running.filter((entry) => !stopping.includes(entry));
    await Promise.allSettled(stopping.map(({ source }) => source.stop()));
  };

  /** What of `configs` is not running yet, and what runs beside them. */
  const compare = (configs: readonly SourceConfig[]) => {
    const left = [...running];
    const missing = configs.filter((config) => {
      const place = left.findIndex(({ key }) => key === JSON.stringify(config));
      if (place !== -1) left.splice(place, 1);
      return place === -1;
    });
    return { missing, surplus: left };
  };

  return {
    apply: async (configs) => {
      const before = running.map(({ config }) => config);
      const { missing, surplus } = compare(configs);
      await stopAll(surplus);
      try {
        for (const config of missing) await start(config);
      } catch (error) {
        const back = compare(before);
        await stopAll(back.surplus);
        for (const config of back.missing) await start(config).catch(() => undefined);
        throw error;
      }
    },
    running: () => running.map(({ source }) => source),
    stop: () => stopAll(running),
  };
};
