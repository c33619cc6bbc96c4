import { writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";
import { beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { createMemoryTail } from "#tests/collector/support/memory-tail.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createServerTls } from "#tests/fakes/connect-proxy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createPodLabels, type KubernetesApi } from "./pod-labels.ts";

type Answer = (response: ServerResponse) => void;

const token = (claims: object) =>
  ["{}", JSON.stringify(claims), "signature"]
    .map((part) => Buffer.from(part).toString("base64url"))
    .join(".");
const ownToken = token({ "kubernetes.io": { node: { name: "node-1" } } });
const pod = (uid: string, labels?: object, annotations?: object) => ({
  metadata: { uid, labels, annotations, managedFields: [{}] },
});
const list =
  (...items: object[]): Answer =>
  (response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ kind: "PartialObjectMetadataList", items }));
  };
const status =
  (code: number): Answer =>
  (response) => {
    response.statusCode = code;
    response.end(JSON.stringify({ kind: "Status", status: "Failure", code }));
  };

let tls: Awaited<ReturnType<typeof createServerTls>>;
let caPem: string;
beforeAll(async () => {
  const ca = await createTestCa();
  tls = await createServerTls(ca);
  caPem = ca.pem;
});

let api: KubernetesApi;
let answer: Answer;
let requests: IncomingMessage[];
/** Starts an API server that answers by `answer`, and mounts what a pod has for it. */
beforeEach(async () => {
  answer = list();
  requests = [];
  const server = createServer(tls, (request, response) => {
    requests.push(request);
    answer(response);
  });
  const port = await listenOnLoopback(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const directory = newFolder();
  writeFileSync(join(directory, "token"), `${ownToken}\n`);
  writeFileSync(join(directory, "ca.crt"), caPem);
  api = { url: `https://localhost:${port}`, directory };
});

const create = () => {
  const clock = createTestClock();
  const log = createTestLog();
  const { signal } = new AbortController();
  const labels = createPodLabels(
    ["app", "example.com/team", "constructor"],
    { clock, log, signal },
    api,
  );
  const of = (uid: string) => labels.addTo({ "k8s.pod.uid": uid });
  return { clock, labels, of };
};

it("adds the labels that the config names, and asks for the node's pods alone", async () => {
  const { labels, of } = create();
  answer = list(
    pod("a", { app: "web", tier: "1" }),
    pod("b"),
    pod("x", { app: "proxy" }, { "kubernetes.io/config.hash": "c" }),
  );
  expect(await labels.addTo({})).toEqual({});
  expect(await of("a")).toEqual({ "k8s.pod.uid": "a", "k8s.pod.label.app": "web" });
  expect(await of("b")).toEqual({ "k8s.pod.uid": "b" });
  expect(await of("c")).toEqual({ "k8s.pod.uid": "c", "k8s.pod.label.app": "proxy" });
  expect(
    requests.map(({ method, url, headers }) => [
      method,
      url,
      headers.authorization,
      headers.accept,
    ]),
  ).toEqual([
    [
      "GET",
      "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1",
      `Bearer ${ownToken}`,
      "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ],
  ]);
  expect(labels.warnings()).toEqual([]);
});

it("asks once for a pod that is new, and for all again after five minutes", async () => {
  const { clock, of } = create();
  // The second pod is new while the first answer is under way.
  answer = (response) =>
    list(requests.length === 1 ? pod("a", { app: "web" }) : pod("b", { "example.com/team": "t" }))(
      response,
    );
  const [, ...found] = await Promise.all([of("a"), of("b"), of("b")]);
  expect(found).toEqual(
    Array(2).fill({ "k8s.pod.uid": "b", "k8s.pod.label.example.com/team": "t" }),
  );
  // The log of a deleted pod keeps its labels; one that no answer has is not asked for again.
  expect(await of("a")).toMatchObject({ "k8s.pod.label.app": "web" });
  for (const _ of [1, 2]) expect(await of("gone")).toEqual({ "k8s.pod.uid": "gone" });
  expect(requests).toHaveLength(3);
  answer = list(pod("b", { app: "other" }));
  await clock.advance(300_000);
  await of("b");
  await expect.poll(() => of("b")).toEqual({ "k8s.pod.uid": "b", "k8s.pod.label.app": "other" });
  expect(requests).toHaveLength(4);
});

const endless: Answer = (response) => {
  const write = () => {
    while (response.write(" ".repeat(65_536)));
  };
  response.on("drain", write);
  write();
};
it.each<[string, Answer, RegExp]>([
  ["a refusal", status(403), /answers status 403/],
  ["text", (response) => response.end("<html>"), /JSON/],
  [
    "another object",
    (response) => response.end('{"items":[{"metadata":{"uid":7}}]}'),
    /not a list of pods/,
  ],
  ["NUL in a label", list(pod("a", { app: "a\0b" })), /not a list of pods/],
  ["a label of a megabyte", list(pod("a", { app: "x".repeat(1_000_000) })), /not a list of pods/],
  [
    "a million objects",
    (response) => response.end(`{"items":[${"{},".repeat(999_999)}{}]}`),
    /250000/,
  ],
  ["bytes without an end", endless, /too long/],
  ["half an answer", (response) => response.write("{", () => response.destroy()), /aborted/],
])(
  "O3: reads logs without labels, and says so, when the API answers with %s",
  async (_, answers, reason) => {
    const { clock, labels, of } = create();
    answer = answers;
    expect(await of("a")).toEqual({ "k8s.pod.uid": "a" });
    expect(labels.warnings()).toMatchObject([
      {
        code: "pod_labels",
        level: "warning",
        path: api.url,
        message: expect.stringMatching(reason),
      },
    ]);
    for (const uid of ["a", "b"]) await of(uid);
    expect(requests).toHaveLength(1);
    answer = list(pod("a", { app: "web" }));
    await clock.advance(30_000);
    await expect.poll(() => of("a")).toEqual({ "k8s.pod.uid": "a", "k8s.pod.label.app": "web" });
    expect(labels.warnings()).toEqual([]);
  },
);

it("O3: waits for two seconds once for an API that does not answer", async () => {
  const { clock, labels, of } = create();
  answer = () => undefined;
  const waiting = of("a");
  await expect.poll(() => requests.length).toBe(1);
  await clock.advance(2_000);
  expect(await waiting).toEqual({ "k8s.pod.uid": "a" });
  await clock.advance(30_000);
  // The next attempt is under way, and nobody waits for it.
  expect(await of("b")).toEqual({ "k8s.pod.uid": "b" });
  await expect.poll(() => requests.length).toBe(2);
  expect(labels.warnings()).toMatchObject([
    { message: expect.stringContaining("no answer within 2 s") },
  ]);
});

it.each([
  ["is none", "none"],
  ["names no node", token({ "kubernetes.io": { pod: {} } })],
])("asks nothing with a token that %s", async (_, text) => {
  writeFileSync(join(api.directory, "token"), text);
  const { labels, of } = create();
  await of("a");
  expect(labels.warnings()).toMatchObject([{ message: expect.stringContaining("names no node") }]);
  expect(requests).toEqual([]);
});

it("trusts the authority of its cluster alone", async () => {
  writeFileSync(join(api.directory, "ca.crt"), (await createTestCa()).pem);
  const { labels, of } = create();
  await of("a");
  expect(labels.warnings()).toMatchObject([{ message: expect.stringMatching(/certificate/) }]);
  expect(requests).toEqual([]);
});

it("gives the records of a pod its labels", async () => {
  answer = list(pod("0d6a", { app: "web" }));
  const { labels } = create();
  const tail = await createMemoryTail({
    preset: "containers",
    path: "/var/log/pods/shop_web_0d6a/nginx/0.log",
    podLabels: labels,
  });
  await tail.write("2026-11-30T07:00:00Z stdout F text\n");
  expect(tail.records[0]?.attributes).toMatchObject({
    "k8s.pod.name": "web",
    "k8s.pod.label.app": "web",
  });
});
