import { Match, Show, Switch } from "solid-js";
import { Icon } from "../design/icon.tsx";
import type { ShapeName } from "../design/shapes.ts";
import { CopyButton } from "../fleet/drawer/copy-button.tsx";
import { formatCount } from "../format/format.ts";
import type { Verdict } from "./check-answers.ts";

const marks: Readonly<Record<Verdict["kind"] | "ephemeral", readonly [icon: ShapeName, word: string]>> = {
  checking: ["info", "Checking receipt"],
  unsupported: ["info", "Cannot verify here"],
  unavailable: ["info", "Receipt not loaded"],
  unverified: ["warning", "Unverified"],
  verified: ["check", "Verified"],
  ephemeral: ["info", "Ephemeral key"],
};

/** Whether an answer is as core signed it, as icon and word; opens to explain what that proves and how to check it elsewhere. */
export const ReceiptBadge = (props: { verdict: Verdict }) => {
  const verified = () => (props.verdict.kind === "verified" ? props.verdict : undefined);
  const tone = () => (verified()?.ephemeral ? "ephemeral" : props.verdict.kind);
  const reason = () =>
    props.verdict.kind === "unverified" || props.verdict.kind === "unavailable" ? props.verdict.reason : undefined;
  return (
    <details class="receipt" data-verdict={tone()}>
      <summary>
        <Icon name={marks[tone()][0]} />
        {marks[tone()][1]}
        <span class="visually-hidden">: the receipt of this answer</span>
      </summary>
      <div class="receipt-facts">
        <Switch>
          <Match when={verified()}>
            {(proof) => (
              <>
                <p>
                  <Show
                    when={proof().ephemeral}
                    fallback="This browser checked the signatures: question, queries, results and answer are as core signed them."
                  >
                    This browser checked the signatures. Core made the key at its start and keeps it in memory only, so
                    nobody but this core vouches for it.
                  </Show>
                </p>
                <dl>
                  <dt>Receipts</dt>
                  <dd>
                    {formatCount(proof().first)} to {formatCount(proof().last)} of this conversation
                  </dd>
                  <dt>Key</dt>
                  <dd>
                    <code>{proof().keyIds.join(", ")}</code>
                  </dd>
                  <dt>SHA-256 of the answer</dt>
                  <dd class="copied">
                    <code>{proof().sha256}</code>
                    <CopyButton text={proof().sha256} what="hash" />
                  </dd>
                </dl>
              </>
            )}
          </Match>
          <Match when={props.verdict.kind === "unverified"}>
            <p>Do not rely on this answer: {reason()}.</p>
          </Match>
          <Match when={props.verdict.kind === "unavailable"}>
            <p>The receipts could not be loaded: {reason()}. Open the conversation again to retry.</p>
          </Match>
          <Match when={props.verdict.kind === "unsupported"}>
            <p>This browser cannot check Ed25519 signatures, or the page was not loaded over https.</p>
          </Match>
        </Switch>
        <p>
          To check it elsewhere, download the conversation and run <code>svc-server verify-receipts FILE</code>. It
          needs no network.
        </p>
      </div>
    </details>
  );
};
