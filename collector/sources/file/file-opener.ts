import { HungMountError } from "#collector/files/mounts.ts";
import { fileFault } from "#kit/describe-error.ts";
import type { Log } from "#kit/log.ts";
import type { FileRules, SourceWarning } from "../source.ts";
import type { CompressedFile } from "./compressed-file.ts";
import { fileKey } from "./position.ts";
import {
  type FileStat,
  ForbiddenFileError,
  type LogFile,
  type SourceFiles,
} from "./source-files.ts";
import { warningOf } from "./warnings.ts";

/** A file that is opened, and how it was found. */
interface FoundFile {
  readonly file: LogFile;
  /** The path whose rotation it may come from: its own, if no followed file had its name. */
  readonly base: string;
  /**
   * `live`: a pattern matches its name. `rotated`: a pattern matches its name, and its file had another one before, that of `base`. `beside`: no
   * pattern matches it, but it lies beside `base` and has a name that rotation gives.
   */
  readonly origin: "live" | "rotated" | "beside";
  /** Whether it belongs to a pattern that is new, so that it was there before it was wanted. */
  readonly isOfNewPattern: boolean;
}

/** How far the content of a compressed file of this size is measured, and in how many passes it was damaged. */
export interface Unpacking {
  readonly compressed: CompressedFile;
  readonly size: number;
  readonly damagedPasses: number;
}

/** A file that is not followed: as it is, compressed, or the content of a compressed one. Its receiver closes it or follows it. */
export type Candidate = (FoundFile & { readonly form: "plain" | "content" }) | PackedCandidate;

/** A compressed file; `unpacking` is absent before the first pass. */
export type PackedCandidate = FoundFile & {
  readonly form: "packed";
  readonly unpacking?: Unpacking;
};

/** Returns the candidate of a file that was just opened. */
export const candidateOf = (found: FoundFile): Candidate => ({
  ...found,
  form: found.file.realPath.endsWith(".gz") ? "packed" : "plain",
});

/** Opens the files of a source, pass by pass, as far as there is room for them. */
export type FileOpener = ReturnType<typeof createFileOpener>;

/** A file that could not be opened. */
export interface UnopenedFile {
  readonly path: string;
  readonly bytes: number;
}

const whyUnread = (error: unknown): string =>
  error instanceof ForbiddenFileError ? `may not be read: ${error.message}` : fileFault(error);

/** Creates the opener. `hasRoom` reports whether another file may be open beside so many. */
export const createFileOpener = (
  { source, rules }: { source: string; rules: FileRules },
  { files, log }: { files: Pick<SourceFiles, "open">; log: Log },
  hasRoom: (opened: number) => boolean,
) => {
  /** The keys of the files of this pass: names may move from one to another while it looks. */
  const opened = new Set<string>();
  const unopened = new Map<string, UnopenedFile>();
  const unreadable = new Set<string>();
  const waiting = new Set<string>();
  /** Why files of this pass cannot be opened. */
  const failed = new Map<string, unknown>();
  return {
    beginPass: () => {
      opened.clear();
      unopened.clear();
      waiting.clear();
      failed.clear();
    },
    /** Opens a file, but not twice in a pass. "full" if it has to wait; null if there is nothing to open, as `SourceFiles.open`. */
    open: async (path: string, stat: FileStat): Promise<LogFile | "full" | null> => {
      const key = fileKey(stat);
      if (opened.has(key)) return null;
      unopened.set(key, { path, bytes: stat.size });
      if (!hasRoom(opened.size)) {
        waiting.add(path);
        return "full";
      }
      const file = await files.open(path, rules).catch((error: unknown) => {
        if (error instanceof ForbiddenFileError) unopened.delete(key);
        throw error;
      });
      unreadable.delete(path);
      if (file === null) return null;
      unopened.delete(key);
      const openedKey = fileKey(file.stat);
      if (!opened.has(openedKey)) {
        opened.add(openedKey);
        return file;
      }
      await file.close();
      return null;
    },
    /** Logs once that a file cannot be opened. */
    warn: (path: string, error: unknown) => {
      if (!(error instanceof HungMountError)) failed.set(path, error);
      if (unreadable.has(path)) return;
      unreadable.add(path);
      if (error instanceof ForbiddenFileError)
        log.warn({ source, path, reason: error.message }, "a file may not be read");
      else log.warn({ err: error, source, path }, "a file cannot be read");
    },
    /** How many files of this pass wait for room. */
    waiting: () => waiting.size,
    /** Reports whether this pass has opened a file. */
    hasOpened: (key: string) => opened.has(key),
    /** Returns the files that this pass found and could not open, by their keys, except those that no source may read. */
    unopened: (): ReadonlyMap<string, UnopenedFile> => unopened,
    /** Returns the files of this pass that could not be opened, except by a rule or a mount that does not answer. */
    failures: () => failed.entries().filter(([, error]) => !(error instanceof ForbiddenFileError)),
    /** Returns what the last pass could not open. */
    warnings: (): SourceWarning[] => [
      ...[...Map.groupBy(failed, ([, error]) => whyUnread(error))].flatMap(([reason, files]) =>
        warningOf(
          "unreadable",
          files.map(([path]) => path),
          reason,
        ),
      ),
      ...warningOf(
        "waiting",
        waiting,
        "not open, as `max_held_files` or the process's limit of descriptors is reached",
      ),
    ],
  };
};
