import { readdir, readFile, readlink } from "node:fs/promises";

/** How a `/proc` is read. */
export interface ProcFiles {
  /** Returns the text of `/proc/net/udp` and `/proc/net/udp6`. */
  readSockets(): Promise<string>;
  /** Returns where the descriptors of this process lead, as `socket:[123]`. */
  readDescriptors(): Promise<readonly string[]>;
}

const orNothing = <Result>(read: Promise<Result>, nothing: Result) => read.catch(() => nothing);

/** The `/proc` of this host; without one nothing is known. */
export const systemProc: ProcFiles = {
  readSockets: async () => {
    const files = ["udp", "udp6"].map((name) => readFile(`/proc/net/${name}`, "utf8"));
    return (await Promise.all(files.map((text) => orNothing(text, "")))).join("\n");
  },
  readDescriptors: async () => {
    const names = await orNothing(readdir("/proc/self/fd"), []);
    return Promise.all(names.map((name) => orNothing(readlink(`/proc/self/fd/${name}`), "")));
  },
};

/** A line of `/proc/net/udp`: its local port, in hex, its inode, and how many datagrams the kernel has dropped. */
const line = /^ *\d+: [\dA-F]+:([\dA-F]{4}) (?:\S+ +){7}(\d+) .* (\d+) *$/gm;

/**
 * Follows how many datagrams the kernel has dropped of this process's socket on `port`. Each call returns those since the one before. The
 * kernel's number has 32 bits, and wraps.
 */
export const createKernelDrops = (port: number, proc: ProcFiles) => {
  const hexPort = port.toString(16).toUpperCase().padStart(4, "0");
  let inode: string | undefined;
  let before = 0;
  const findInode = async (rows: readonly RegExpMatchArray[]) => {
    const own = new Set(await proc.readDescriptors());
    return rows.find((row) => row[1] === hexPort && own.has(`socket:[${row[2]}]`))?.[2];
  };
  return async (): Promise<number> => {
    const rows = [...(await proc.readSockets()).matchAll(line)];
    inode ??= await findInode(rows);
    const drops = rows.find((row) => row[2] === inode)?.[3];
    if (drops === undefined) return 0;
    const since = (Number(drops) - before) >>> 0;
    before = Number(drops);
    return since;
  };
};
