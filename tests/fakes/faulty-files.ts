import { type FileSystem, systemFiles } from "../../collector/files/private-files.ts";

/** A real file system that fails at one step of a test's choice. */
export interface FaultyFiles {
  files: FileSystem;
  /** How many operations were asked for so far; those of an open file (write, sync, …) count each. */
  readonly operations: number;
}

/**
 * Fails operation number `at`, counted from 1 (0: none), with EIO and without doing it. `lasting`: and every later one, as if the process had
 * been killed there, so that nothing can be put back. Syncing is counted and
 * not done: it tells nothing in a test, and takes most of its time.
 */
export const createFaultyFiles = ({ at, lasting = false }: { at: number; lasting?: boolean }): FaultyFiles => {
  let operations = 0;
  const step = () => {
    operations += 1;
    if (operations === at || (lasting && operations > at))
      throw Object.assign(new Error("EIO: planted fault"), { code: "EIO" });
  };
  const watched = <Target extends object>(target: Target): Target =>
    new Proxy(target, {
      get: (_, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== "function") return member;
        return async (...args: unknown[]) => {
          // A descriptor is given back even by a process that is killed.
          if (name !== "close") step();
          if (name === "sync") return undefined;
          const result: unknown = await Reflect.apply(member, target, args);
          return name === "open" ? watched(result as object) : result;
        };
      },
    });
  return {
    files: watched(systemFiles),
    get operations() {
      return operations;
    },
  };
};
