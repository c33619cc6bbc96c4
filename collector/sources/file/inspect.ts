import type { Clock } from "#kit/clock.ts";
import type { SourceWarning } from "../source.ts";
import { type Encoding, suspectUtf16 } from "./charset.ts";
import { createDirectories } from "./directories.ts";
import type { FileSourceConfig } from "./discovery.ts";
import { createFileOpener } from "./file-opener.ts";
import { createPatternFiles } from "./pattern-files.ts";
import { fileKey, printBytesMax } from "./position.ts";
import type { LogFile, SourceFiles } from "./source-files.ts";
import { fileWarnings } from "./warnings.ts";

const unlogged = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/**
 * Opens the files of a source as its discovery does, without following them. `warnings` returns what the source would warn of, also of files
 * that other sources have opened since.
 */
export const inspectFiles = async (
  config: FileSourceConfig & { readonly maxHeldFiles: number },
  { files, clock }: { files: SourceFiles; clock: Clock },
) => {
  const opened = new Map<string, LogFile>();
  const opener = createFileOpener(
    { source: "file", rules: config.rules },
    {
      log: unlogged,
      files: {
        open: async (path, rules) => {
          const file = await files.open(path, rules);
          if (file) opened.set(fileKey(file.stat), file);
          return file;
        },
      },
    },
    () => opened.size < config.maxHeldFiles && files.hasRoom(),
  );
  const patternFiles = createPatternFiles(config, {
    files,
    directories: createDirectories(files, clock),
    opener,
    isFollowed: (key) => opened.has(key),
    isParked: () => false,
    knownPaths: () => [],
  });
  try {
    await patternFiles.beginPass();
    await patternFiles.lookAll(new Set(), false);
  } catch (error) {
    opener.warn(config.include.join(", "), error);
  }
  const inspected: { file: LogFile; suspected: Encoding | undefined }[] = [];
  for (const file of opened.values()) {
    const start = await file.read(Buffer.alloc(printBytesMax), 0).catch(() => Buffer.alloc(0));
    inspected.push({ file, suspected: suspectUtf16(config.encoding ?? "utf-8", start) });
  }
  return {
    warnings: (): SourceWarning[] => [
      ...patternFiles.warnings(),
      ...opener.warnings(),
      ...fileWarnings(inspected, files),
    ],
    close: async () => {
      for (const file of opened.values()) await file.close();
    },
  };
};
