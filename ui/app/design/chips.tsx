import { Index, type JSX } from "solid-js";

/** A choice of what a page shows, as a link. */
export interface Chip {
  words: JSX.Element;
  path: string;
  isChosen: boolean;
  title?: string;
}

/** Choices beside each other, of which the present one is marked. */
export const Chips = (props: { label: string; chips: readonly Chip[]; children?: JSX.Element }) => (
  <nav class="chips" aria-label={props.label}>
    <Index each={props.chips}>
      {(chip) => (
        <a
          class="button"
          href={chip().path}
          title={chip().title}
          aria-current={chip().isChosen ? "true" : undefined}
        >
          {chip().words}
        </a>
      )}
    </Index>
    {props.children}
  </nav>
);
