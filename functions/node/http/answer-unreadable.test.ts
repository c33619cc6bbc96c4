import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, expect, it } from "vitest";
import { listenHttp } from "./http-listener.ts";

const app = {
  fetch: (request: Request) => {
    if (request.url.endsWith("/waits")) return new Promise<Response>(() => {});
    if (!request.url.endsWith("/slow")) return new Response("fine");
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("half")),
    });
    return new Response(body);
  },
};
const listener = await listenHttp(app, { port: 0, host: "127.0.0.1" });
afterAll(() => listener.close(0));

/** Sends bytes and returns the response, up to the end of the connection. */
const send = async (bytes: string) => {
  const socket = connect(listener.port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(bytes);
  const [head = "", body = ""] = (await text(socket)).split("\r\n\r\n");
  const [status = "", ...lines] = head.split("\r\n");
  const headers = new Headers(lines.map((line) => line.split(": ") as [string, string]));
  return { status, headers, body };
};

it.each([
  ["a line that is none", "hello\r\n\r\n", "400 Bad Request", "malformed_request"],
  [
    "two lengths",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "400 Bad Request",
    "malformed_request",
  ],
  [
    "a header with a line feed",
    "GET / HTTP/1.1\r\nHost: a\r\nX: a\nb\r\n\r\n",
    "400 Bad Request",
    "malformed_request",
  ],
  [
    "a target that is none",
    "GET http://[x/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "400 Bad Request",
    "malformed_request",
  ],
  [
    "headers over 32 KiB",
    `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(33_000)}\r\n\r\n`,
    "431 Request Header Fields Too Large",
    "headers_too_large",
  ],
])("is answered with a problem document: %s", async (_, bytes, status, code) => {
  const answer = await send(bytes);
  expect(answer.status).toBe(`HTTP/1.1 ${status}`);
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("connection")).toBe("close");
  const problem = JSON.parse(answer.body);
  expect(problem).toEqual({
    type: `urn:svc:problem:${code}`,
    title: expect.any(String),
    status: Number(status.slice(0, 3)),
    detail: expect.any(String),
    code,
    action: "fix_request",
    request_id: answer.headers.get("x-request-id"),
  });
  expect(answer.body).not.toContain("xxx");
});

it("is answered on a connection that served requests before", async () => {
  const socket = connect(listener.port, "127.0.0.1");
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await once(socket, "data");
  socket.write("hello\r\n\r\n");
  expect(await text(socket)).toContain('"code":"malformed_request"');
});

it.each([
  ["", ""],
  [", though another waits behind it", "GET /waits HTTP/1.1\r\nHost: a\r\n\r\n"],
])(
  "writes nothing into a response in progress%s, and affects no other connection",
  async (_, next) => {
    const socket = connect(listener.port, "127.0.0.1");
    socket.write(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n${next}`);
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk;
    });
    socket.on("error", () => undefined);
    while (!received.includes("half")) await once(socket, "data");
    socket.write("hello\r\n\r\n");
    await once(socket, "close");
    expect(received).toMatch(/half\r\n$/);
    expect(await (await fetch(`http://127.0.0.1:${listener.port}/`)).text()).toBe("fine");
  },
);
