import { createSignal, For } from "solid-js";
import type { ChatEvent } from "#proto/chat/session.ts";
import { plainText } from "../format/format.ts";
import type { ShownMessage } from "./conversation.ts";
import { outcomeOf } from "./message.tsx";
import { sentencesAfter } from "./sentences.ts";

/** The most announcements that are kept. */
const announcementsMax = 30;

/** Announces an answer as it arrives: whole sentences, tool calls in few words, and how it ended. */
export const createAnnouncer = () => {
  const [announcements, setAnnouncements] = createSignal<readonly string[]>([]);
  let text = "";
  let spokenTo = 0;
  const announce = (message: string) =>
    message !== "" &&
    setAnnouncements((before) => [...before.slice(1 - announcementsMax), plainText(message)]);
  const announceRest = () => {
    announce(text.slice(spokenTo).trim());
    text = "";
    spokenTo = 0;
  };
  return {
    /** For a screen reader, newest last. */
    announcements,
    event({ event, data }: ChatEvent) {
      if (event === "text_delta") {
        text += data.text;
        const { spoken, end } = sentencesAfter(text, spokenTo);
        spokenTo = end;
        announce(spoken);
      } else if (event === "tool_call") {
        announceRest();
        announce(data.name === "query_sql" ? "Running a query" : "Reading the tables");
      } else if (event === "tool_result" && data.name === "query_sql")
        announce(`Query: ${outcomeOf(data.result)}`);
    },
    ended({ status, problem }: ShownMessage) {
      announceRest();
      if (status === "complete") announce("Answer complete");
      else
        announce(
          status === "aborted"
            ? "Answer stopped"
            : `Answer failed: ${problem?.message ?? "unknown"}`,
        );
    },
  };
};

/** Holds the announcements for screen readers; invisible. */
export const Announcements = (props: { announcements: readonly string[] }) => (
  <div class="visually-hidden" role="log" aria-live="polite" aria-label="Answer">
    <For each={props.announcements}>{(message) => <p>{message}</p>}</For>
  </div>
);
