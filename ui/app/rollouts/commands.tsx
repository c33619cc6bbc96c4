import { For, Show } from "solid-js";
import type { Rollout } from "../../../proto/rollout/rollout.ts";
import { CopyButton } from "../design/copy-button.tsx";
import { commandsOf } from "./rollout-view.ts";

/** The commands that change the rollout, to copy: this page changes nothing. */
export const RolloutCommands = (props: { rollout: Rollout }) => (
  <Show when={commandsOf(props.rollout).length > 0}>
    <section class="panel rollout-part" aria-labelledby="commands">
      <h2 id="commands">To change it</h2>
      <p class="quiet">
        This page changes nothing. An administrator runs one of these in a terminal:
      </p>
      <ul class="commands">
        <For each={commandsOf(props.rollout)}>
          {({ command, about }) => (
            <li>
              <span class="command-line">
                <code>{command}</code>
                <CopyButton text={command} what={`the command that ${about}`} />
              </span>
              <span class="quiet">{about}</span>
            </li>
          )}
        </For>
      </ul>
    </section>
  </Show>
);
