import { readFile } from "node:fs/promises";
import { createLabPki } from "#scripts/lab/ca/pki.ts";
import { findPorts } from "#scripts/ports.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import type { PairContext } from "./pairs.ts";

/** Prepares a peer's server: a folder with certificates, a free port, and a function that opens connections; all ends with the pair. */
export const preparePeer = async (name: string, defer: PairContext["defer"]) => {
  const { path: folder } = defer(await openTemporaryFolder(name));
  const { edge, serverCaFile } = await createLabPki({ dir: folder });
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
