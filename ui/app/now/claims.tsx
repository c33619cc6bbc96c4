import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, createSignal, Show } from "solid-js";
import type { NowLine } from "#proto/now/report.ts";
import { type ApiProblem, caughtProblem } from "../api/api-client.ts";
import { keepText, readKeptText } from "../browser/kept-text.ts";
import { Button } from "../design/buttons.tsx";
import { Banner, Why } from "../design/report-parts.tsx";
import { usePageContext } from "../session/page-context.tsx";
import { Sentence } from "./sentence.tsx";

const claimsPath = "/api/core/now/claims";

/** Takes and releases lines. */
export type Claims = ReturnType<typeof createClaims>;

/**
 * Creates what takes and releases lines; `onChange` is called after each change. The address names the line whose dialog is open, so that it
 * outlives a new sign-in.
 */
export const createClaims = (lines: () => readonly NowLine[], onChange: () => void) => {
  const { api, session } = usePageContext();
  const location = useLocation();
  const navigate = useNavigate();
  const taking = createMemo<NowLine | undefined>((before) => {
    const key = location.query.take;
    // What the dialog says stays while somebody types.
    if (before?.key === key) return before;
    return session()?.scopes.includes("admin")
      ? lines().find((line) => line.key === key)
      : undefined;
  });
  /** Opens the dialog of a line; closes it without one. */
  const open = (line?: NowLine) => {
    setProblem(undefined);
    const query = line ? `?${new URLSearchParams({ take: line.key })}` : "";
    navigate(`/${query}${location.hash}`, { replace: true, scroll: false });
  };
  const [problem, setProblem] = createSignal<ApiProblem>();
  let isSending = false;
  const change = async (...request: Parameters<typeof api.send>): Promise<void> => {
    // A second Enter would be told that the line is taken.
    if (isSending) return;
    isSending = true;
    setProblem(undefined);
    try {
      await api.send(...request);
      keepText("note", "", "");
      if (taking()) open();
    } catch (failure) {
      setProblem(caughtProblem(failure));
    }
    isSending = false;
    onChange();
  };
  return {
    /** The line whose dialog is open. */
    taking,
    /** Why the last change was not made. */
    problem,
    open,
    take: (key: string, note: string) =>
      change(claimsPath, { method: "POST", body: { key, note: note.trim() || null } }),
    release: ({ id }: NonNullable<NowLine["taken"]>) =>
      change(`${claimsPath}/${id}`, { method: "DELETE" }),
  };
};

/** The dialog that takes a line, with a note for colleagues; above the lines why one could not be released. */
export const ClaimDialog = (props: { claims: Claims }) => {
  const failure = () => (
    <Show when={props.claims.problem()}>
      {(problem) => (
        <Banner role="alert">
          <span>
            Nothing was changed: <Why problem={problem()} />
          </span>
        </Banner>
      )}
    </Show>
  );
  return (
    <Show when={props.claims.taking()} fallback={failure()} keyed>
      {(line) => (
        <dialog
          class="popover now-dialog"
          aria-labelledby="take-title"
          ref={(dialog) => queueMicrotask(() => dialog.showModal())}
          onClose={() => props.claims.open()}
        >
          <form
            class="stack gap-3"
            onSubmit={(event) => {
              event.preventDefault();
              void props.claims.take(
                line.key,
                String(new FormData(event.currentTarget).get("note")),
              );
            }}
          >
            <h2 id="take-title">Take this</h2>
            <p>
              <Sentence text={line.sentence} />
            </p>
            <label>
              Note for the next person
              <input
                class="input"
                name="note"
                maxlength="500"
                autocomplete="off"
                autofocus
                placeholder="network team is on it"
                value={readKeptText("note", line.key) ?? ""}
                onInput={(event) => keepText("note", line.key, event.currentTarget.value)}
              />
            </label>
            <p class="quiet">It is yours until it ends, or until somebody releases it.</p>
            {failure()}
            <div class="row">
              <button class="button button-primary" type="submit">
                Take
              </button>
              <Button onClick={() => props.claims.open()}>Cancel</Button>
            </div>
          </form>
        </dialog>
      )}
    </Show>
  );
};
