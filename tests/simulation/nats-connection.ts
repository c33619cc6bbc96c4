/**
 * A connection of the NATS client to the modelled servers, as far as the sink and exports use one. The client keeps what it could not send
 * until it has connected again; what was on its way when the connection was lost has arrived, or not.
 */
import {
  headers as createHeaders,
  errors,
  type Msg,
  type MsgHdrs,
  MsgHdrsImpl,
  type NatsConnection,
} from "@nats-io/transport-node";
import type { JetStream, PublishAnswer } from "./jetstream.ts";
import type { ConsumerMessage } from "./stream-consumers.ts";
import type { Process, World } from "./world.ts";

const reconnectMs = 500;
const requestTimeoutMs = 5_000;

/** Connects a process. */
export const connectStreams = (
  world: World,
  { jetstream, client }: { jetstream: JetStream; client: Process },
): NatsConnection => {
  const subscriptions = new Map<string, (error: Error | null, message: Msg) => void>();
  const events: { type: string }[] = [];
  let wake = (): void => undefined;
  let isClosed = false;
  let isUp = true;
  let upAt = 0;
  let downAt = 0;
  let unsent: (() => void)[] = [];
  const notify = (type: string): void => {
    events.push({ type });
    wake();
  };
  const travel = () => world.chance.integer(0, 3);
  /** Runs `act` at the servers, behind what was sent before, unless they are away. */
  const up = (act: () => void): void => {
    upAt = Math.max(upAt, world.now() + travel());
    world.as(jetstream.process, () =>
      world.after(upAt - world.now(), () => jetstream.isAway || act()),
    );
  };
  /** Runs `act` here, unless the connection is lost meanwhile. */
  const down = (act: () => void): void => {
    const before = epoch;
    downAt = Math.max(downAt, world.now() + travel());
    world.as(client, () =>
      world.after(downAt - world.now(), () => before !== epoch || isClosed || act()),
    );
  };
  let epoch = 0;
  const lose = (): void => {
    epoch += 1;
    isUp = false;
    world.as(client, () =>
      world.after(travel(), () => {
        notify("disconnect");
        world.after(world.chance.integer(reconnectMs / 10, reconnectMs), reconnect);
      }),
    );
  };
  const reconnect = (): void => {
    if (isClosed) return;
    if (jetstream.isAway) return void world.after(reconnectMs, reconnect);
    isUp = true;
    notify("reconnect");
    for (const send of unsent.splice(0)) send();
  };
  const disconnect = jetstream.connect(lose);
  client.onEnd.add(disconnect);

  const deliver = (reply: string, body: object, code = 0): void =>
    down(() => {
      const [, prefix = ""] = /^(.*)\.[^.]+$/.exec(reply) ?? [];
      const message = { subject: reply, headers: { code }, json: () => body };
      subscriptions.get(`${prefix}.*`)?.(null, message as unknown as Msg);
    });
  /** Delivers to the inbox of a request what a consumer sends. */
  const deliverTo = (inbox: string, sent: ConsumerMessage): void => {
    const [, prefix = ""] = /^(.*)\.[^.]+$/.exec(inbox) ?? [];
    const message =
      sent.kind === "status"
        ? {
            subject: inbox,
            headers: createHeaders(sent.code, sent.description),
            data: new Uint8Array(),
          }
        : {
            subject: sent.message.subject,
            headers: MsgHdrsImpl.decode(sent.message.headers),
            reply: sent.reply,
            // A reader may free what it was given. The next consumer begins at the position, whatever was acknowledged.
            data: Uint8Array.from(sent.message.data),
            respond: () => true,
          };
    down(() => subscriptions.get(`${prefix}.*`)?.(null, message as unknown as Msg));
  };
  const publish = (
    subject: string,
    payload: Uint8Array | string,
    { headers, reply = "" }: { headers?: MsgHdrs; reply?: string },
  ) => {
    const [, stream, name] =
      /^\$JS\.API\.CONSUMER\.MSG\.NEXT\.(\w+)\.([\w-]+)$/.exec(subject) ?? [];
    if (stream !== undefined && name !== undefined) {
      const pull = () =>
        up(() => {
          const before = epoch;
          const send = (sent: ConsumerMessage) => before === epoch && deliverTo(reply, sent);
          const body = JSON.parse(String(payload)) as Record<string, unknown>;
          if (!jetstream.consumers.pull({ stream, name }, body, send))
            send({ kind: "status", code: 503, description: "No Responders" });
        });
      if (isUp) pull();
      else unsent = [...unsent, pull];
      return;
    }
    const message = {
      subject,
      headers: (headers as MsgHdrsImpl).encode(),
      data: payload as Uint8Array,
    };
    const answer = (result: PublishAnswer) => {
      if (!jetstream.losesAcks || world.chance.isLikely(0.5)) deliver(reply, result);
    };
    const send = () =>
      up(() => {
        if (!jetstream.receive(message, answer)) deliver(reply, {}, 503);
      });
    if (isUp) send();
    else unsent = [...unsent, send];
  };
  const request = (subject: string, payload = new Uint8Array()): Promise<Msg> =>
    new Promise((resolve, reject) => {
      const cancel = world.after(requestTimeoutMs, () => reject(new errors.TimeoutError()));
      const body =
        payload.length === 0
          ? {}
          : (JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown>);
      const send = () =>
        up(() => {
          const answer = jetstream.request(subject, body);
          if (answer === undefined)
            throw new Error(`the model does not know the request ${subject}`);
          down(() => {
            cancel();
            resolve({ data: new TextEncoder().encode(JSON.stringify(answer)) } as Msg);
          });
        });
      if (isUp) send();
      else unsent = [...unsent, send];
    });

  const connection = {
    options: {},
    info: { server_name: "n1", version: jetstream.version, max_payload: 1_048_576 },
    features: { get: () => ({ min: "", ok: true }) },
    publish,
    request,
    requestMany: async () =>
      (async function* () {
        const server = { name: "n1", ver: jetstream.version };
        yield { json: () => ({ server, data: { config: { sync_always: true } } }) };
      })(),
    subscribe: (
      subject: string,
      { callback }: { callback(error: Error | null, message: Msg): void },
    ) => {
      subscriptions.set(subject, callback);
      return { isClosed: () => false, unsubscribe: () => subscriptions.delete(subject) };
    },
    async *status() {
      for (;;) {
        const event = events.shift();
        if (event !== undefined) yield event;
        else if (isClosed) return;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    close: async () => {
      isClosed = true;
      disconnect();
      wake();
    },
  };
  // The part of NatsConnection that the sink, and the client's library for it, use.
  return connection as unknown as NatsConnection;
};
