import { createSignal, type JSX, onCleanup, Show } from "solid-js";
import { Icon, type ShapeName } from "./icon.tsx";

/** A button that submits no form; `class` adds to its look. */
export const Button = (props: JSX.ButtonHTMLAttributes<HTMLButtonElement>) => (
  <button type="button" {...props} class={`button ${props.class ?? ""}`} />
);

/** How long the button shows its outcome. */
const outcomeMs = 2000;

const blocked = "blocked by the browser: select the text to copy it";

/** Copies a text. Reports a browser that does not allow it (no secure context). */
export const CopyButton = (props: {
  text: string;
  what: string;
  /** The visible words of the button; by default it has none. */
  label?: string;
}) => {
  const [outcome, setOutcome] = createSignal("");
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const copy = async () => {
    const copied = await navigator.clipboard?.writeText(props.text).then(
      () => true,
      () => false,
    );
    setOutcome(copied ? "copied" : blocked);
    clearTimeout(timer);
    timer = setTimeout(() => setOutcome(""), outcomeMs);
  };
  return (
    <span class="copy">
      <Button
        class={props.label ? "" : "button-plain button-icon"}
        title={`Copy ${props.what}`}
        onClick={() => void copy()}
      >
        <Icon name={outcome() === "copied" ? "check" : "copy"} />
        {props.label ?? <span class="visually-hidden">Copy {props.what}</span>}
      </Button>
      <span role="status" classList={{ "visually-hidden": outcome() !== blocked }}>
        {outcome()}
      </span>
    </span>
  );
};

/** A command line to copy. */
export const CopiedCommand = (props: { text: string; what: string }) => (
  <div class="command panel">
    <pre>
      <code>{props.text}</code>
    </pre>
    <CopyButton {...props} />
  </div>
);

/** A button with a popover, whose content exists while it is open. */
export const PopoverMenu = (props: {
  id: string;
  button: string;
  /** What the button shows in place of this text. */
  face?: JSX.Element;
  /** The button shows this shape alone. */
  icon?: ShapeName;
  /** The accessible name of the popover; by default the text of the button. */
  label?: string;
  class?: string;
  /** Of the button. */
  title?: string;
  /** Receives the button, for the shortcut that presses it. */
  ref?: (button: HTMLButtonElement) => void;
  children: JSX.Element;
}) => {
  const [isOpen, setIsOpen] = createSignal(false);
  return (
    <>
      <Button
        ref={props.ref}
        class={props.icon && "button-plain button-icon"}
        title={props.title ?? (props.icon && props.button)}
        popovertarget={props.id}
      >
        <Show when={props.icon} fallback={props.face ?? props.button}>
          {(icon) => (
            <>
              <Icon name={icon()} />
              <span class="visually-hidden">{props.button}</span>
            </>
          )}
        </Show>
      </Button>
      <section
        id={props.id}
        class={`popover ${props.class ?? ""}`}
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
