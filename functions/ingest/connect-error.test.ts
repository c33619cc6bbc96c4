import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { expect, it } from "vitest";
import { GrpcError, readGrpcStatus } from "#proto/grpc-status.ts";
import { Problem } from "../problems.ts";
import { toConnectError } from "./connect-error.ts";

/** Returns the error as a client reads it from its trailers. */
const received = (problem: Problem) => {
  const trailer = new Headers();
  setTrailerStatus(trailer, toConnectError(problem));
  const error = readGrpcStatus(Object.fromEntries(trailer));
  if (!(error instanceof GrpcError)) throw new Error("no error arrived");
  return error;
};

it("says in google.rpc.RetryInfo when to retry, where the problem does", () => {
  const error = received(new Problem("shutting_down", { retryAfterSeconds: 7.6 }));
  expect([error.code, error.reason(), error.retryAfterSeconds()]).toEqual([
    "unavailable",
    "shutting_down",
    7,
  ]);
  expect(received(new Problem("shutting_down")).retryAfterSeconds()).toBe(0);
});
