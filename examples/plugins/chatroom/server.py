"""The chat server that the plugin beside it speaks to: what people type is brought until it is confirmed, and what is
sent is printed. `python server.py PORT`, then type `ann: hello`."""

import json
import socketserver
import sys
import threading

LONGEST = 2000  # characters of a message


class ChatServer(socketserver.ThreadingTCPServer):
    """One bot at a time. `messages` is what it has sent, as people see it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), BotLine)
        self.lock = threading.Lock()
        self.messages = []
        self.marks = []
        self.confirmed = []
        self.typing = 0
        self.refuse = None  # a function of an order: why it is refused, or None
        self._unconfirmed = {}
        self._lines = []
        self._numbers = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def say(self, user, text, chat=None, id=None, **more):
        """Somebody writes; the message comes to the bot until it has confirmed it."""
        with self.lock:
            self._numbers += 1
            told = {"id": id or f"m{self._numbers}", "chat": chat or user, "user": user, "text": text, **more}
            self._unconfirmed[told["id"]] = told
        self.tell(told)
        return told["id"]

    def press(self, message, choice):
        self.tell({"event": "button", "message": message, "choice": choice})

    def tell(self, told):
        for line in list(self._lines):
            line.write(told)

    def begin(self, line):
        self._lines.append(line)
        for told in list(self._unconfirmed.values()):
            line.write(told)

    def end(self, line):
        if line in self._lines:
            self._lines.remove(line)

    def hang_up(self):
        """Whoever is connected has to come again."""
        for line in list(self._lines):
            line.hang_up()

    def obey(self, order):
        """What the bot asks for, and what it is told."""
        why = self.refuse(order) if self.refuse else None
        if why is not None:
            return {"refused": why, "again": why == "busy"}
        with self.lock:
            self._numbers += 1
            name = f"b{self._numbers}"
            if len(order.get("text", "")) > LONGEST:
                return {"refused": "too long", "kind": "too_long"}
            if order["op"] in ("send", "file"):
                self.messages.append({**order, "id": name, "edits": []})
                print(f"bot to {order['chat']}: {order['text']}", flush=True)
                return {"id": name}
            if order["op"] == "edit":
                message = next((one for one in self.messages if one["id"] == order["id"]), None)
                if message is None:
                    return {"refused": "no such message", "kind": "not_found"}
                message["edits"].append(message["text"])
                message["text"], message["final"] = order["text"], order["final"]
                return {"id": order["id"]}
            if order["op"] == "typing":
                self.typing += 1
            elif order["op"] == "mark":
                self.marks.append((order["id"], order["mark"]))
            elif order["op"] == "confirm":
                self._unconfirmed.pop(order["id"], None)
                self.confirmed.append(order["id"])
        return {}

    def close(self):
        self.shutdown()
        self.hang_up()
        self.server_close()


class BotLine(socketserver.StreamRequestHandler):
    def setup(self):
        super().setup()
        self._writing = threading.Lock()

    def handle(self):
        self.server.begin(self)
        try:
            for line in self.rfile:
                order = json.loads(line)
                self.write({**self.server.obey(order), "answers": order["number"]})
        except (OSError, ValueError):
            pass
        finally:
            self.server.end(self)

    def write(self, told):
        try:
            with self._writing:
                self.wfile.write((json.dumps(told) + "\n").encode())
        except (OSError, ValueError):
            pass

    def hang_up(self):
        try:
            self.request.shutdown(2)
        except OSError:
            pass


if __name__ == "__main__":
    server = ChatServer(int(sys.argv[1]) if sys.argv[1:] else 7777)
    print(f"Listening at {server.address}; type NAME: TEXT", flush=True)
    for typed in sys.stdin:
        user, _, text = typed.strip().partition(": ")
        if text:
            server.say(user, text)
