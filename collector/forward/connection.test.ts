import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, it } from "vitest";
import { ForwardSession } from "./connection.ts";

it("a peer that does not answer ends the stream, and not the process", async () => {
  // Accepts the connection, and neither reads nor writes. A peer that answered at first would have to within 20 ms each time.
  const network = createServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
  const accepted = once(network, "connection") as Promise<[Socket]>;
  await once(network, "listening");
  const { port } = network.address() as AddressInfo;
  const session = new ForwardSession(`http://127.0.0.1:${port}`, { pingIntervalMs: 20, pingTimeoutMs: 20 });
  const stream = await session.request("POST", "/", {}, {});
  const connection = stream.session;
  await once(stream, "error");
  session.abort();
  // Not by events.once, which would listen for the error in question.
  const closed = new Promise((resolve) => connection?.on("close", resolve));
  const [socket] = await accepted;
  socket.destroy();
  await closed;
  expect(session.state()).toBe("closed");
  network.close();
});
