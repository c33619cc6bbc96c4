import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { type Answer, createAnswers } from "#functions/domain/chat/answer.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { eventStream, type StreamedEvent } from "#functions/http/event-stream.ts";
import { problemResponse, toProblem } from "#functions/http/render-problem.ts";
import { IdParams, personScope } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { transportStatus } from "#functions/problems.ts";

const Content = v.pipe(
  v.string("must be a string"),
  v.check((text) => text.trim() !== "", "must not be empty"),
  v.check((text) => !text.includes("\u0000"), "must not hold NUL characters"),
  v.check((text) => text.isWellFormed(), "must be well-formed Unicode"),
);

const example = `event: text_delta
data: {"text":"3 hosts are stale."}

event: done
data: {"message_id":"01920000-0000-7000-8000-0000000000c3","status":"complete"}

`;

/** `POST /v1/chat/sessions/{id}/messages`: asks a question; the answer is a stream of server-sent events. */
export const sendMessageRoute = (
  core: Pick<Core, "config" | "db" | "clock" | "entropy" | "log" | "observe">,
  chat: Chat,
) => {
  const answer = createAnswers(core, chat);
  return route({
    method: "POST",
    path: "/v1/chat/sessions/:id/messages",
    operationId: "sendChatMessage",
    summary:
      "Ask a question; the answer is a stream of server-sent events, which ends with `done` or `error`",
    guard: personScope(core, "audit"),
    params: IdParams,
    body: v.strictObject({ content: Content }),
    bodyExample: { content: "How many hosts are stale?" },
    replies: {
      200: {
        description:
          "The events `text_delta`, `tool_call`, `tool_result`, `receipt`, `done`, `error` (docs/chat.md)",
        type: "text/event-stream",
        example,
      },
    },
    problems: [
      "not_found",
      "conflict",
      "too_many_conversations",
      "inference_failed",
      "shutting_down",
    ],
    handle: async ({ params, body, caller, origin, signal }) => {
      const question = { sessionId: params.id, content: body.content };
      const events = await answer(caller, question, { origin, signal });
      return eventStream(streamed(core, events, origin.requestId), core);
    },
  });
};

/** Converts the failure of a turn to the event `error`, whose data is the problem document of a failed request. */
const streamed = (
  { log }: Pick<Core, "log">,
  events: Answer,
  requestId: string,
): AsyncIterator<StreamedEvent, void, void> => ({
  next: async () => {
    const { done, value } = await events.next();
    if (done) return { done, value: undefined };
    if (value.event !== "failed") return { done: false, value };
    const problem = toProblem(value.error);
    const level = transportStatus[problem.kind].http >= 500 ? "error" : "debug";
    log[level](
      { request_id: requestId, code: problem.code, err: problem.options.cause },
      "chat turn failed",
    );
    return {
      done: false,
      value: { event: "error", data: JSON.parse(problemResponse(problem, requestId).body) },
    };
  },
  return: async () => {
    await events.return();
    return { done: true, value: undefined };
  },
});
