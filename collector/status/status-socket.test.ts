import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { serveStatus } from "./status-socket.ts";

const folder = newFolder();

it.each(["that has sent something", "that does not read"])(
  "the status socket closes beside a client %s",
  async (client) => {
    const large = { text: "x".repeat(4 * 1024 * 1024) };
    const status = await serveStatus(folder, () => large as never, createTestLog());
    const socket = connect({ path: join(folder, "status.sock"), allowHalfOpen: true });
    socket.on("error", () => undefined);
    await once(socket, "connect");
    if (client === "that has sent something") {
      socket.write("GET / HTTP/1.1\r\n\r\n");
      await once(socket, "readable");
    }
    await status.close();
    socket.destroy();
    expect(socket.destroyed).toBe(true);
  },
);
