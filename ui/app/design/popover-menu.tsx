import { createSignal, type JSX, Show } from "solid-js";

/** A button with a popover, whose content exists while it is open. */
export const PopoverMenu = (props: {
  id: string;
  button: string;
  /** The accessible name of the popover; by default the text of the button. */
  label?: string;
  class: string;
  children: JSX.Element;
}) => {
  const [isOpen, setIsOpen] = createSignal(false);
  return (
    <>
      <button class="button" type="button" popovertarget={props.id}>
        {props.button}
      </button>
      <section
        id={props.id}
        class={`popover ${props.class}`}
        popover="auto"
        aria-label={props.label ?? props.button}
        tabindex="0"
        onToggle={(event) => setIsOpen(event.newState === "open")}
      >
        <Show when={isOpen()}>{props.children}</Show>
      </section>
    </>
  );
};
