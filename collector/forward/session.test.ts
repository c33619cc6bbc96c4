import { once } from "node:events";
import { createServer } from "node:http2";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { expect, it } from "vitest";
import { ForwardSession } from "./session.ts";

it("a peer that stops answering ends the stream, and nothing but the stream", async () => {
  const peer = createServer((_, response) => response.writeHead(200)).listen(0, "127.0.0.1");
  await once(peer, "listening");
  const sockets: Socket[] = [];
  const network = createTcpServer((socket) => {
    const onward = connect((peer.address() as AddressInfo).port, "127.0.0.1");
    sockets.push(socket, onward);
    for (const end of [socket, onward]) end.on("error", () => undefined);
    socket.pipe(onward).pipe(socket);
  }).listen(0, "127.0.0.1");
  await once(network, "listening");
  const { port } = network.address() as AddressInfo;
  const session = new ForwardSession(`http://127.0.0.1:${port}`, { pingIntervalMs: 20, pingTimeoutMs: 20 });
  const stream = await session.request("POST", "/", {}, {});
  const connection = stream.session;
  await once(stream, "response");
  const [socket] = sockets;
  socket?.unpipe();
  socket?.pause();
  await once(stream, "error");
  session.abort();
  // Not by events.once, which would listen for the very error that nobody listens to.
  const closed = new Promise((resolve) => connection?.on("close", resolve));
  for (const end of sockets) end.destroy();
  await closed;
  expect(session.state()).toBe("closed");
  network.close();
  peer.close();
});
