import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "#kit/clock.ts";
import { createLabPki } from "#scripts/lab/ca/pki.ts";
import { findPorts } from "#scripts/ports.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import type { PairContext } from "./pairs.ts";

/** Prepares a peer's server: a folder with certificates, a free port, and a function that opens connections; all ends with the pair. */
export const preparePeer = async (name: string, defer: PairContext["defer"]) => {
  const folder = await mkdtemp(join(tmpdir(), `bench-${name}-`));
  defer({ [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) });
  const { edge, serverCaFile } = await createLabPki({ dir: folder, clock: systemClock });
  const ca = await readFile(serverCaFile, "utf8");
  const [port = 0] = await findPorts(1);
  const connect = async (count: number): Promise<HttpsSender[]> => {
    const connections = await Promise.all(
      Array.from({ length: count }, () => connectHttps({ port, ca })),
    );
    defer({
      [Symbol.asyncDispose]: async () =>
        connections.forEach((connection) => void connection.close()),
    });
    return connections;
  };
  return { folder, edge, port, connect };
};
