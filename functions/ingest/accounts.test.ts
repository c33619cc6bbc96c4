import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { AccountSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { type AccountRegister, type AccountStream, createAccountHandlers } from "./accounts.ts";
import type { Caller } from "./admission.ts";

const caller = { identity: "spiffe://fleet.test/host-1" } as Caller;
const account = () => create(AccountSchema, { body: new Uint8Array(1) });
const stored: AccountStream["lastFrame"] = Promise.resolve(undefined);
const open = (accept: AccountRegister["accept"], lastFrame = stored) => {
  const failures: unknown[] = [];
  const stream = { queue: undefined, lastFrame };
  const handle = createAccountHandlers({ accept }, (cause) => failures.push(cause))(
    caller,
    () => stream,
  );
  return { handle, failures };
};

it("are decided on once the frame before them is settled, also by a failure", async () => {
  const frame = Promise.withResolvers<undefined>();
  const order: string[] = [];
  const { handle } = open(async () => {
    order.push("account");
    return { through: 1n, refused: "" };
  }, frame.promise);
  const answered = handle(account());
  await new Promise(setImmediate);
  order.push("frame");
  frame.reject(new Error("no disk"));
  expect((await answered).value).toMatchObject({ through: 1n, refused: "" });
  expect(order).toEqual(["frame", "account"]);
});

it("come one after the other: a second unanswered one ends the stream, and another one may follow an answer", async () => {
  const { handle } = open(async () => ({ through: 1n, refused: "" }));
  const first = handle(account());
  await expect(handle(account())).rejects.toMatchObject({ code: "frame_invalid" });
  await first;
  await expect(handle(account())).resolves.toMatchObject({ case: "accountAck" });
});

it("are refused where core takes none", async () => {
  const none = createAccountHandlers(undefined, () => undefined)(caller, () => ({
    queue: undefined,
    lastFrame: stored,
  }));
  await expect(none(account())).rejects.toMatchObject({ code: "frame_invalid" });
});

it("end no stream by a fault of core's own", async () => {
  const { handle, failures } = open(() => Promise.reject(new TypeError("a fault")));
  expect((await handle(account())).value).toMatchObject({ refused: "internal" });
  expect(failures).toMatchObject([{ message: "a fault" }]);
});
