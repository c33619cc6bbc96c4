/** The planted faults of the file source: mistakes at its seams that the laws of its histories have to find. */
import type { Checkpoint } from "#collector/queue/record.ts";
import type { LogFile } from "#collector/sources/file/source-files.ts";
import type { SourceParts, SourcePlant } from "./simulate-sources.ts";

type Dependencies = SourceParts[1];

const withDependencies =
  (change: (dependencies: Dependencies) => Partial<Dependencies>): SourcePlant =>
  ([config, dependencies]) => [config, { ...dependencies, ...change(dependencies) }];

/** Stores only the checkpoints that `isStored` selects. */
const storing = (isStored: (checkpoint: Checkpoint) => boolean): SourcePlant =>
  withDependencies(({ append }) => ({
    append: (records, options = {}) =>
      append(records, { ...options, checkpoints: options.checkpoints?.filter(isStored) ?? [] }),
  }));

const isPosition = ({ source, key }: Checkpoint): boolean => source === "file" && /^\d/.test(key);

const withFiles = (
  change: (files: Dependencies["files"]) => Partial<Dependencies["files"]>,
): SourcePlant => withDependencies(({ files }) => ({ files: { ...files, ...change(files) } }));

/** Changes each file that is opened. */
const opening = (change: (file: LogFile) => Partial<LogFile>): SourcePlant =>
  withFiles((files) => ({
    open: async (path, rules) => {
      const file = await files.open(path, rules);
      return file && { ...file, ...change(file) };
    },
  }));

/** The mistakes by name. */
export const sourcePlants: Readonly<Record<string, SourcePlant>> = {
  "positions are not stored": storing((checkpoint) => !isPosition(checkpoint)),
  "read generations are not stored": storing(({ key }) => !key.startsWith("read:")),
  "what a truncation cut off is not stored": storing(({ key }) => !key.startsWith("cut:")),
  "gaps are not stored": storing(({ source }) => source !== "file.gap"),
  "positions are stored before their lines": withDependencies(({ append }) => ({
    append: async (records, options = {}) => {
      await append([], { checkpoints: options.checkpoints ?? [] });
      return append(records, options);
    },
  })),
  "rotated files are not listed": withFiles(({ list }) => ({
    list: async (path) => (await list(path)).filter(({ name }) => !name.includes(".log.")),
  })),
  "compressed files are empty": withFiles(({ packed }) => ({
    packed: (file) => ({ ...packed(file), content: async () => "damaged" }),
  })),
  "a file does not grow": opening(({ stat }) => ({ restat: async () => stat })),
  "a deleted file seems to have a name": opening(({ restat }) => ({
    restat: async () => ({ ...(await restat()), links: 1 }),
  })),
  "what is before a position is not compared": opening(({ read }) => ({
    read: async (buffer, offset) => {
      const found = await read(buffer, offset);
      return buffer.length <= 1024 && offset > 0 ? Buffer.alloc(found.length) : found;
    },
  })),
  "lines are stored twice": withDependencies(({ append }) => ({
    append: async (records, options) => {
      await append(records);
      return append(records, options);
    },
  })),
};
