"""Java's classes and static methods, looked up once: `remember_classes()` before Spark starts.

PySpark asks the Java process for a class, then for its method, each time that it builds a column. Both stay what they
are for as long as the process lives, and with it the objects that remember them.
"""

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView


def remember_classes() -> None:
    for kind in (JVMView, JavaPackage, JavaClass):
        if not hasattr(kind.__getattr__, "__wrapped__"):
            kind.__getattr__ = _remembering(kind.__getattr__)


def _remembering(look_up):
    def remembered(self, name):
        found = look_up(self, name)
        if isinstance(found, JavaClass | JavaMember | JavaPackage):
            self.__dict__[name] = found
        return found

    remembered.__wrapped__ = look_up
    return remembered
