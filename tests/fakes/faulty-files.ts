import { systemFiles } from "#collector/files/private-files.ts";

/**
 * Fails operation number `at`, counted from 1 (0: none), with EIO and without doing it. With `lasting`, fails every later one too, as if
 * the process had been killed there and could not undo anything. Counts syncs without doing them: in a test they only cost time.
 */
export const createFaultyFiles = ({ at, lasting = false }: { at: number; lasting?: boolean }) => {
  let operations = 0;
  const step = () => {
    operations += 1;
    if (operations === at || (lasting && operations > at))
      throw Object.assign(new Error("EIO: planted fault"), { code: "EIO" });
  };
  const watched = <Target extends object>(target: Target) =>
    new Proxy(target, {
      get: (_, name) => {
        const member = Reflect.get(target, name);
        if (typeof member !== "function") return member;
        return async (...args: unknown[]) => {
          // Even a killed process closes its descriptors.
          if (name !== "close") step();
          if (name === "sync") return undefined;
          const result = await Reflect.apply(member, target, args);
          return name === "open" ? watched(result) : result;
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
